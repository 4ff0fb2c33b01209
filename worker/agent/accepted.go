package agent

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"sync/atomic"
	"time"

	"strongroom/activities/domain"
	"strongroom/compute"
	"strongroom/worker/gateway"
	"strongroom/worker/pki"
)

// acceptTime is how long a gateway may take to say whether a host is accepted.
const acceptTime = 5 * time.Second

// called is a host that is called. It is told nothing before the certificate that it shows is accepted: who
// shows one that was revoked may have stolen it (H1).
type called struct {
	compute.Agent
	identity *pki.Identity
	accepts  func(context.Context, *x509.Certificate) error
	again    time.Duration
	shown    atomic.Pointer[x509.Certificate] // that was accepted
	refused  atomic.Pointer[error]            // the connection may be made when nobody waits for it any more
}

// toHost is another host that is called for an operation, which a gateway accepts.
func (c Client) toHost(host compute.Agent, of compute.Arrival) *called {
	return c.to(host, func(ctx context.Context, shown *x509.Certificate) error { return c.Accepts(ctx, of, shown) })
}

func (c Client) to(host compute.Agent, accepts func(context.Context, *x509.Certificate) error) *called {
	return &called{Agent: host, identity: c.Identity, accepts: accepts, again: cmp.Or(c.Again, gateway.AskAgain)}
}

// ask asks whether a certificate is accepted.
func (h *called) ask(ctx context.Context, shown *x509.Certificate) error {
	ctx, cancel := context.WithTimeout(ctx, acceptTime)
	defer cancel()
	err := h.accepts(ctx, shown)
	if err == nil {
		return nil
	}
	return compute.Errorf(cmp.Or(compute.KindOf(err), compute.Unavailable), "host %s is not accepted: %w", h.Name, err)
}

// tls is the configuration of a connection to the host.
func (h *called) tls(ctx context.Context) *tls.Config {
	cfg := h.identity.Client(pki.HostName(h.Host))
	isIts := cfg.VerifyConnection
	cfg.VerifyConnection = func(s tls.ConnectionState) error {
		err := isIts(s)
		if err != nil {
			return err
		}
		h.shown.Store(s.PeerCertificates[0])
		if err = h.ask(ctx, s.PeerCertificates[0]); err != nil {
			h.refused.Store(&err)
		}
		return err
	}
	return cfg
}

// do makes one call, over a connection of its own.
func (h *called) do(r *http.Request, over *http.Transport) (*http.Response, error) {
	over.TLSClientConfig, over.DisableKeepAlives, over.DisableCompression = h.tls(r.Context()), true, true
	resp, err := pki.HTTPClient(over).Do(r)
	return resp, h.failure(err)
}

// failure is why the host could not be called.
func (h *called) failure(err error) error {
	if err == nil {
		return nil
	}
	if why := h.refused.Load(); why != nil {
		return domain.Unsaid{Err: *why}
	}
	return compute.Errorf(compute.Unavailable, "host %s does not answer: %w", h.Name, err)
}

// watch is what ends a stream to or from a host that is not accepted any more.
type watch struct {
	cut  func() error // closes the stream
	why  atomic.Pointer[error]
	stop context.CancelFunc
}

// watched asks about the host now and then, until the stream is closed.
func (h *called) watched(ctx context.Context, cut func() error) *watch {
	ctx, stop := context.WithCancel(ctx)
	w := &watch{cut: cut, stop: stop}
	go func() {
		tick := time.NewTicker(h.again)
		defer tick.Stop()
		var unanswered gateway.Unanswered
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if err := h.ask(ctx, h.shown.Load()); ctx.Err() == nil && unanswered.Ends(err) {
				w.end(err)
				return
			}
		}
	}()
	return w
}

// end cuts the stream off, for a reason.
func (w *watch) end(why error) {
	w.why.CompareAndSwap(nil, &why)
	_ = w.cut()
}

// because is the reason of an error of a stream that was cut off.
func (w *watch) because(err error) error {
	if why := w.why.Load(); err != nil && why != nil {
		return *why
	}
	return err
}

// stream is a connection to a host, for as long as that is accepted.
type stream struct {
	*tls.Conn
	*watch
}

// Read implements io.Reader.
func (s stream) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	return n, s.because(err)
}

// Write implements io.Writer.
func (s stream) Write(p []byte) (int, error) {
	n, err := s.Conn.Write(p)
	return n, s.because(err)
}

// Close implements io.Closer.
func (s stream) Close() error {
	s.stop()
	return s.Conn.Close()
}
