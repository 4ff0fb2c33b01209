package gateway

import (
	"context"
	"crypto/x509"
	"net/http"
	"sync"
	"time"

	"strongroom/compute"
	"strongroom/schema"
)

// AskAgain is after how long it is looked again whether the host at the other end of a stream is accepted.
const AskAgain = 5 * time.Second

// mostUnanswered is how often in a row nobody may answer that before the stream ends.
const mostUnanswered = 12

// Unanswered lets a stream go on for a while without an answer whether its host is accepted.
type Unanswered int

// Ends reports whether a stream ends with what was answered: nil is that the host is accepted.
func (u *Unanswered) Ends(err error) bool {
	if err == nil {
		*u = 0
		return false
	}
	*u++
	return !compute.Is(err, compute.Unavailable) || *u > mostUnanswered
}

// good looks now and then whether the certificate of a stream's host is good.
type good struct {
	mu         sync.Mutex // a store's client may read on when it has answered
	every      time.Duration
	look       func() error
	last       time.Time // that it looked
	unanswered Unanswered
	refused    error // that ended the stream
}

// still fails once the stream is to end.
func (g *good) still() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.refused != nil || time.Since(g.last) < g.every {
		return g.refused
	}
	if err := g.look(); g.unanswered.Ends(err) {
		g.refused = err
	}
	g.last = time.Now()
	return g.refused
}

// ended is what ended the stream; nil: nothing did.
func (g *good) ended() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.refused
}

// Accepts fails with Forbidden unless a certificate is good, and its host one that an operation that runs
// on a server concerns, as it does this one: it may be called for that.
func (c *Client) Accepts(ctx context.Context, of compute.Arrival, shown *x509.Certificate) error {
	return c.ask(ctx, http.MethodPost, pathAccepts, arrivalRequest{of, serial(shown)}, nil)
}

func accepts(c *call) (any, error) {
	in, err := read[arrivalRequest](c.body)
	if err != nil {
		return nil, err
	}
	return struct{}{}, c.requireCall(c.Context(), in)
}

func (r Records) requireCall(ctx context.Context, in arrivalRequest) error {
	granted, err := schema.New(r.Pool).CallGranted(ctx, schema.CallGrantedParams{
		ServerID: in.Server.UUID, Serial: in.Serial, Asks: r.Host.UUID, OperationID: in.Operation,
	})
	if err != nil {
		return unavailable(err)
	}
	if !granted {
		return compute.Errorf(compute.Forbidden, "the certificate %q was revoked, or has ended, or its host and this one have nothing of server %s, on which operation %q runs",
			in.Serial, in.Server, in.Operation)
	}
	return nil
}
