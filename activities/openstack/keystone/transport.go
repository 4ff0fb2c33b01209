package keystone

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"strongroom/compute"
)

// Connection says how services of the cloud are reached, all of them.
type Connection struct {
	CAFile   string        // authorities, PEM, beside those of the system; "": none
	CertFile string        // a certificate that services are shown, PEM, with KeyFile; "": none. Each connection reads both anew
	KeyFile  string        // its key, PEM
	Insecure bool          // any certificate is taken
	Connect  time.Duration // until there is a connection; 0: connectTimeout
	Silence  time.Duration // that a service may make, MostSilence at most; 0: patience
}

// MostSilence is less than what an activity has for a call, who waits for what is made to its end.
const MostSilence = 4 * time.Minute

func (c Connection) silence() time.Duration { return cmp.Or(c.Silence, patience) }

const (
	connectTimeout = 10 * time.Second
	// patience is how long a service may be silent. Transfers take as long as they
	// take, so no request as a whole is bounded here.
	patience = 2 * time.Minute
	// pieceBytes is what moves within that time on the slowest line worth having.
	pieceBytes = 1 << 20
)

// TLS is how services are shown who asks, and have to show who they are. Invalid: a file cannot be read, or has no such thing.
func (c Connection) TLS() (*tls.Config, error) {
	out := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: c.Insecure} //nolint:gosec // the operator's word, who is warned
	if c.CAFile != "" {
		text, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, compute.Errorf(compute.Invalid, "cafile: %w", err)
		}
		if out.RootCAs, err = x509.SystemCertPool(); err != nil {
			return nil, compute.Errorf(compute.Invalid, "the system's authorities: %w", err)
		}
		if !out.RootCAs.AppendCertsFromPEM(text) {
			return nil, compute.Errorf(compute.Invalid, "cafile: %s has no certificate in PEM", c.CAFile)
		}
	}
	if c.CertFile == "" && c.KeyFile == "" {
		return out, nil
	}
	pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
	if err != nil {
		return nil, compute.Errorf(compute.Invalid, "certfile and keyfile: %w", err)
	}
	var last atomic.Pointer[tls.Certificate]
	last.Store(&pair)
	out.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		if pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile); err == nil {
			last.Store(&pair)
		} // else one of the two files is newer than the other, at this moment
		return last.Load(), nil
	}
	return out, nil
}

// Transport is what all clients share. It gives up a service that is silent for too long. Errors are those of TLS.
func (c Connection) Transport() (*http.Transport, error) {
	secured, err := c.TLS()
	if err != nil {
		return nil, err
	}
	connect, silence := cmp.Or(c.Connect, connectTimeout), c.silence()
	dialer := net.Dialer{Timeout: connect}
	return &http.Transport{
		TLSClientConfig: secured,
		Proxy:           http.ProxyFromEnvironment,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &impatient{Conn: conn, silence: silence}, nil
		},
		ForceAttemptHTTP2:     true,
		TLSHandshakeTimeout:   connect,
		ResponseHeaderTimeout: silence,
		ExpectContinueTimeout: time.Second,
		MaxIdleConnsPerHost:   32,
		IdleConnTimeout:       silence / 2, // before the connection breaks of itself
	}, nil
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
