package agent

import (
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"time"

	"strongroom/compute"
	"strongroom/worker/pki"
)

// maxConsoleBytes bounds what is believed of a host.
const maxConsoleBytes = 1 << 20

// Client asks the agents of hosts.
type Client struct {
	Identity *pki.Identity
	// Accepts fails with Forbidden unless the host with a certificate may be called for an operation on a
	// server. The api, which gives nothing to hosts, has none.
	Accepts func(ctx context.Context, of compute.Arrival, shown *x509.Certificate) error
	// Again is after how long it is asked about the host at the other end of a stream; 0: gateway.AskAgain.
	Again time.Duration
}

// Console gives the end of a server's console log from the host at url, an https one.
// NotFound: there is none; Unavailable: the host does not answer, or it is another that does.
func (c Client) Console(ctx context.Context, host compute.HostID, url string, server compute.ServerID, lines int) ([]byte, error) {
	return c.read(ctx, host, fmt.Sprintf("%s/console/%s?lines=%d", url, server, lines), server, http.StatusNotFound, "console log")
}

// read gives what a host, which is asked at url, an https one, tells of a server, at most maxConsoleBytes. NotFound: it
// answers with the status none, for it has no such thing; Unavailable: it does not answer, or it is another that does.
func (c Client) read(ctx context.Context, host compute.HostID, url string, server compute.ServerID, none int, thing string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil || r.URL.Scheme != "https" {
		return nil, compute.Errorf(compute.Unavailable, "the host of server %s has no https address", server)
	}
	one := pki.HTTPClient(&http.Transport{TLSClientConfig: c.Identity.Client(pki.HostName(host)), DisableKeepAlives: true})
	resp, err := one.Do(r)
	if err != nil {
		return nil, compute.Errorf(compute.Unavailable, "the host of server %s does not answer: %w", server, err)
	}
	defer func() { _ = resp.Body.Close() }()
	switch resp.StatusCode {
	case http.StatusOK:
		text, err := io.ReadAll(io.LimitReader(resp.Body, maxConsoleBytes))
		if err != nil {
			return nil, compute.Errorf(compute.Unavailable, "the host of server %s stopped answering: %w", server, err)
		}
		return text, nil
	case none:
		return nil, compute.Errorf(compute.NotFound, "server %s has no %s", server, thing)
	default:
		return nil, compute.Errorf(compute.Unavailable, "the host of server %s answered %d", server, resp.StatusCode)
	}
}
