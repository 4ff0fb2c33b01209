package keystone

import (
	"context"
	"net"
	"net/http"
	"time"
)

const (
	connectTimeout = 10 * time.Second
	// patience is how long a service may be silent. Transfers take as long as they
	// take, so no request as a whole is bounded here.
	patience = 2 * time.Minute
	// pieceBytes is what moves within that time on the slowest line worth having.
	pieceBytes = 1 << 20
)

// newTransport is what all clients share. It gives up a service that is silent for
// so long.
func newTransport(silence time.Duration) *http.Transport {
	dialer := net.Dialer{Timeout: connectTimeout}
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &impatient{Conn: conn, silence: silence}, nil
		},
		ForceAttemptHTTP2:     true,
		TLSHandshakeTimeout:   connectTimeout,
		ResponseHeaderTimeout: silence,
		ExpectContinueTimeout: time.Second,
		MaxIdleConnsPerHost:   32,
		IdleConnTimeout:       silence / 2, // before the connection breaks of itself
	}
}

// impatient is a connection that breaks when nothing moves on it, in either
// direction: a service that stops in the middle of a transfer holds nobody for ever.
type impatient struct {
	net.Conn
	silence time.Duration
}

func (c *impatient) Read(p []byte) (int, error) {
	if err := c.SetDeadline(time.Now().Add(c.silence)); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

// Write writes in pieces, each of which is a sign of life.
func (c *impatient) Write(p []byte) (int, error) {
	done := 0
	for {
		if err := c.SetDeadline(time.Now().Add(c.silence)); err != nil {
			return done, err
		}
		n, err := c.Conn.Write(p[done:min(len(p), done+pieceBytes)])
		if done += n; err != nil || done == len(p) {
			return done, err
		}
	}
}
