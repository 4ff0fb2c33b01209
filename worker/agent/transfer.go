package agent

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"strongroom/activities/disk"
	"strongroom/compute"
	"strongroom/worker/gateway"
	"strongroom/worker/pki"
)

// Transfers is what other hosts may read: disks and TPM state, each for the operation that is
// about to make them there.
type Transfers struct {
	// Grants fails with Forbidden unless the host with a certificate may have what the
	// transfer says of this one.
	Grants func(ctx context.Context, t compute.Transfer, to *x509.Certificate) error
	// IsOff fails with Conflict while a server's guest runs.
	IsOff func(ctx context.Context, server compute.ServerID) error
	Disk  func(server compute.ServerID, name string) (*disk.Sending, error)
	Image func(name string) (*os.File, error)
	TPM   func(ctx context.Context, server compute.ServerID) ([]byte, error)
}

// headerTransfer carries a compute.Transfer, as JSON; headerSHA256 what is sent has.
const (
	headerTransfer = "Strongroom-Transfer"
	headerSHA256   = "Strongroom-Sha256"
)

// The paths for hosts.
const (
	pathLayout   = "/v1/disk/layout"
	pathSegments = "/v1/disk/segments"
	pathImage    = "/v1/disk/image"
	pathTPM      = "/v1/tpm"
)

// grantedFor is how long a transfer goes on before it is asked again whether it may, and
// whether the guest is still off.
const grantedFor = gateway.AskAgain

// stall is how long a stream may stand still.
const stall = time.Minute

// transfer is a request of another host that may have what it asks for.
type transfer struct {
	*http.Request
	compute.Transfer
	w    http.ResponseWriter
	ask  func() error
	last time.Time // that ask was asked
}

// still asks again whether the transfer may go on, now and then.
func (t *transfer) still() error {
	if time.Since(t.last) < grantedFor {
		return nil
	}
	err := t.ask()
	t.last = time.Now()
	return err
}

// Write gives each write its own time.
func (t *transfer) Write(p []byte) (int, error) {
	if err := http.NewResponseController(t.w).SetWriteDeadline(time.Now().Add(stall)); err != nil {
		return 0, err
	}
	return t.w.Write(p)
}

// forHosts lets in hosts that may have what they ask for. What is refused is in the log.
func (s Server) forHosts(kind compute.ThingKind, h func(*transfer) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		t := &transfer{Request: r, w: w}
		err := s.admit(t, kind)
		if err == nil {
			err = h(t)
		}
		if err == nil {
			return
		}
		peer, _ := pki.Peer(r.TLS)
		s.Logger.WarnContext(r.Context(), "refused to hand on, or broke off", "peer", peer, "address", r.RemoteAddr, "request", r.URL.Path,
			"operation", t.Operation, "thing", t.Name, "error", err)
		if w.Header().Get("Content-Length") != "" { // the answer has begun: it ends before its length
			panic(http.ErrAbortHandler)
		}
		refuse(w, err)
	}
}

func (s Server) admit(t *transfer, kind compute.ThingKind) error {
	peer, cert := pki.Peer(t.TLS)
	if _, ok := peer.Host(); !ok {
		return compute.Errorf(compute.Forbidden, "no certificate of a host of this cloud")
	}
	if err := json.Unmarshal([]byte(t.Header.Get(headerTransfer)), &t.Transfer); err != nil || t.Kind != kind {
		return compute.Errorf(compute.Invalid, "the header %s does not say what is asked for", headerTransfer)
	}
	if s.Transfers == nil {
		return compute.Errorf(compute.Conflict, "this host hands nothing on")
	}
	t.ask = func() error {
		if err := s.Transfers.Grants(t.Context(), t.Transfer, cert); err != nil {
			return err
		}
		if kind == compute.ThingCachedImage { // no guest writes to it
			return nil
		}
		return s.Transfers.IsOff(t.Context(), t.Server)
	}
	return t.still()
}

// disk opens the disk that the transfer names.
func (s Server) disk(t *transfer) (*disk.Sending, error) {
	name, ok := strings.CutPrefix(t.Name, t.Server.String()+"/")
	if !ok {
		return nil, compute.Errorf(compute.Invalid, "%q is no disk of server %s", t.Name, t.Server)
	}
	return s.Transfers.Disk(t.Server, name)
}

func (s Server) layout(t *transfer) error {
	d, err := s.disk(t)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	t.w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(t).Encode(d.Layout())
}

func (s Server) segments(t *transfer) error {
	next, err := strconv.ParseInt(t.URL.Query().Get("next"), 10, 64)
	if err != nil || next < 0 {
		return compute.Errorf(compute.Invalid, "next is no number of a part")
	}
	d, err := s.disk(t)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	version := t.URL.Query().Get("version")
	if d.Layout().Version != version {
		return compute.Errorf(compute.Conflict, "the disk has changed")
	}
	if err := http.NewResponseController(t.w).EnableFullDuplex(); err != nil {
		return err
	}
	t.begin(d.Layout().StreamBytes(next))
	sent := 0
	return d.Send(t, version, next, func() error {
		if sent++; sent > disk.Window {
			if err := t.got(); err != nil {
				return err
			}
		}
		return t.still()
	})
}

// got waits until the other host, which gets all that was written so far, says that one more part is
// durable there.
func (t *transfer) got() error {
	c := http.NewResponseController(t.w)
	err := c.Flush()
	if err == nil {
		err = c.SetReadDeadline(time.Now().Add(stall))
	}
	if err == nil {
		_, err = io.ReadFull(t.Body, make([]byte, 1))
	}
	return err
}

// image sends the copy of an image.
func (s Server) image(t *transfer) error {
	f, err := s.Transfers.Image(t.Name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return compute.Errorf(compute.Unavailable, "copy of image %s: %w", t.Name, err)
	}
	t.begin(info.Size())
	for left := info.Size(); left > 0; {
		n, err := io.CopyN(t, f, min(left, imageChunk))
		if err == nil {
			err = t.still()
		}
		if err != nil {
			return err
		}
		left -= n
	}
	return nil
}

// imageChunk is how much of an image is sent before it is asked again whether it may.
const imageChunk = 4 << 20

func (s Server) tpm(t *transfer) error {
	if t.Name != t.Server.String() {
		return compute.Errorf(compute.Invalid, "%q is no TPM state of server %s", t.Name, t.Server)
	}
	data, err := s.Transfers.TPM(t.Context(), t.Server)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	t.w.Header().Set(headerSHA256, hex.EncodeToString(sum[:]))
	t.begin(int64(len(data)))
	_, err = t.Write(data)
	return err
}

// begin begins an answer of so many bytes: one that is cut off shows as such.
func (t *transfer) begin(bytes int64) {
	t.w.Header().Set("Content-Type", "application/octet-stream")
	t.w.Header().Set("Content-Length", strconv.FormatInt(bytes, 10))
	t.w.WriteHeader(http.StatusOK)
}

var _ io.Writer = (*transfer)(nil)
