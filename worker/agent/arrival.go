package agent

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"strongroom/activities/domain"
	"strongroom/compute"
	"strongroom/worker/gateway"
	"strongroom/worker/pki"
)

// Arrivals is what a host from which a running server comes here may do: what domain.Expect was
// told of by the control plane.
type Arrivals struct {
	// Grants fails with Forbidden unless an operation that runs moves the server from the host with
	// a certificate to this one.
	Grants  func(ctx context.Context, of compute.Arrival, from *x509.Certificate) error
	Prepare func(ctx context.Context, of compute.Arrival, from compute.HostID, say domain.Leaving) ([]byte, error)
	Open    func(ctx context.Context, of compute.Arrival, from compute.HostID, stream string) (domain.Stream, error)
	Finish  func(ctx context.Context, of compute.Arrival, from compute.HostID, cookie []byte, givenUp bool) (domain.Outcome, error)
}

// The paths for hosts from which servers come.
const (
	pathPrepare = "/v1/arrival/prepare"
	pathStream  = "/v1/arrival/stream"
	pathFinish  = "/v1/arrival/finish"
)

// headerArrival carries a compute.Arrival, as JSON.
const headerArrival = "Strongroom-Arrival"

// streamProtocol is what a connection becomes that carries a stream.
const streamProtocol = "strongroom-stream"

// maxLeaving bounds what is read of what libvirt says on another host.
const maxLeaving = 4 << 20

// arriving is a request of a host from which a server comes.
type arriving struct {
	*http.Request
	compute.Arrival
	from compute.HostID
	cert *x509.Certificate
	w    http.ResponseWriter
}

// finishing asks for the end of a move.
type finishing struct {
	Cookie  []byte `json:"cookie"`
	GivenUp bool   `json:"given_up"`
}

// forLeaving lets in the host that a server leaves for this one. What is refused is in the log.
func (s Server) forLeaving(h func(*arriving) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		in := &arriving{Request: r, w: w}
		err := s.admitArriving(in)
		var out any
		if err == nil {
			out, err = h(in)
		}
		if out != nil || err != nil { // no stream's
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(stall)) // the work took its time
		}
		if err == nil && out != nil {
			w.Header().Set("Content-Type", "application/json")
			err = json.NewEncoder(w).Encode(out)
		}
		if err == nil {
			return
		}
		peer, _ := pki.Peer(r.TLS)
		s.Logger.WarnContext(r.Context(), "refused what a host asked of a server that comes from it, or failed", "peer", peer,
			"address", r.RemoteAddr, "request", r.URL.Path, "operation", in.Operation, "server", in.Server, "error", err)
		refuse(w, err)
	}
}

func (s Server) admitArriving(in *arriving) error {
	peer, cert := pki.Peer(in.TLS)
	from, ok := peer.Host()
	if !ok {
		return compute.Errorf(compute.Forbidden, "no certificate of a host of this cloud")
	}
	in.from, in.cert = from, cert
	if err := json.Unmarshal([]byte(in.Header.Get(headerArrival)), &in.Arrival); err != nil {
		return compute.Errorf(compute.Invalid, "the header %s does not say what is asked for", headerArrival)
	}
	if s.Arrivals == nil {
		return compute.Errorf(compute.Conflict, "no server comes to this host")
	}
	return s.Arrivals.Grants(in.Context(), in.Arrival, cert)
}

func readJSON[T any](in *arriving) (out T, err error) {
	if err := json.NewDecoder(http.MaxBytesReader(in.w, in.Body, maxLeaving)).Decode(&out); err != nil {
		return out, compute.Errorf(compute.Invalid, "the request cannot be read")
	}
	return out, nil
}

func (s Server) prepare(in *arriving) (any, error) {
	say, err := readJSON[domain.Leaving](in)
	if err != nil {
		return nil, err
	}
	cookie, err := s.Arrivals.Prepare(in.Context(), in.Arrival, in.from, say)
	return prepared{cookie}, err
}

type prepared struct {
	Cookie []byte `json:"cookie"`
}

func (s Server) finish(in *arriving) (any, error) {
	say, err := readJSON[finishing](in)
	if err != nil {
		return nil, err
	}
	return s.Arrivals.Finish(in.Context(), in.Arrival, in.from, say.Cookie, say.GivenUp)
}

// stream joins the connection to a socket of the QEMU that waits for the guest. Whether it may go on
// is asked now and then.
func (s Server) stream(in *arriving) (any, error) {
	to, err := s.Arrivals.Open(in.Context(), in.Arrival, in.from, in.URL.Query().Get("name"))
	if err != nil {
		return nil, err
	}
	conn, buffered, err := http.NewResponseController(in.w).Hijack()
	if err != nil {
		_ = to.Close()
		return nil, err
	}
	other, ok := conn.(domain.Stream)
	if !ok || buffered.Reader.Buffered() > 0 { // who asks waits for the answer
		_ = to.Close()
		return nil, conn.Close()
	}
	_ = conn.SetDeadline(time.Time{})
	if _, err := io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+streamProtocol+"\r\n\r\n"); err != nil {
		_ = to.Close()
		return nil, conn.Close()
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(in.Context()))
	defer cancel()
	go func() {
		tick := time.NewTicker(grantedFor)
		defer tick.Stop()
		var unanswered gateway.Unanswered
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if err := s.Arrivals.Grants(ctx, in.Arrival, in.cert); ctx.Err() == nil && unanswered.Ends(err) {
					s.Logger.WarnContext(ctx, "broke off a stream of a server that comes", "server", in.Server, "operation", in.Operation, "error", err)
					cancel()
				}
			}
		}
	}()
	if err := domain.Join(ctx, to, other); err != nil && ctx.Err() == nil {
		s.Logger.InfoContext(ctx, "a stream of a server that comes broke off", "server", in.Server, "error", err)
	}
	return nil, nil
}
