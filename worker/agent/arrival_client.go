package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"strongroom/activities/domain"
	"strongroom/compute"
)

// prepareTime is how long a host may take to start a QEMU, finishTime to have a guest run there.
const (
	prepareTime = 5 * time.Minute
	finishTime  = time.Minute
)

// Prepare implements domain.Arrivals.
func (c Client) Prepare(ctx context.Context, to compute.Agent, of compute.Arrival, say domain.Leaving) ([]byte, error) {
	var out prepared
	err := c.arrive(ctx, prepareTime, to, of, pathPrepare, say, &out)
	return out.Cookie, err
}

// Finish implements domain.Arrivals.
func (c Client) Finish(ctx context.Context, to compute.Agent, of compute.Arrival, cookie []byte, givenUp bool) (out domain.Outcome, err error) {
	return out, c.arrive(ctx, finishTime, to, of, pathFinish, finishing{cookie, givenUp}, &out)
}

// Stream implements domain.Arrivals.
func (c Client) Stream(ctx context.Context, to compute.Agent, of compute.Arrival, name string) (domain.Stream, error) {
	r, err := arrivalRequest(ctx, to, of, pathStream+"?"+url.Values{"name": {name}}.Encode(), nil)
	if err != nil {
		return nil, err
	}
	host := c.toHost(to, of)
	conn, resp, err := host.upgrade(ctx, r, streamProtocol)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusSwitchingProtocols {
		defer func() { _ = conn.Close() }()
		return nil, notTaken(resp, to, of)
	}
	return stream{conn, host.watched(ctx, conn.Close)}, nil
}

// oneByOne reads no byte more than is asked for, so that a bufio.Reader takes none of what follows a
// line that it looks for.
type oneByOne struct{ io.Reader }

func (o oneByOne) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	return o.Reader.Read(p[:1])
}

// arrive asks the agent of the host that a server goes to.
func (c Client) arrive(ctx context.Context, within time.Duration, to compute.Agent, of compute.Arrival, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	r, err := arrivalRequest(ctx, to, of, path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := c.toHost(to, of).do(r, &http.Transport{
		DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext, TLSHandshakeTimeout: 10 * time.Second, MaxResponseHeaderBytes: 64 << 10,
	})
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return notTaken(resp, to, of)
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxLeaving)).Decode(out); err != nil {
		return compute.Errorf(compute.Unavailable, "host %s broke off: %w", to.Name, err)
	}
	return nil
}

func arrivalRequest(ctx context.Context, to compute.Agent, of compute.Arrival, path string, body io.Reader) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(to.URL, "/")+path, body)
	if err != nil || r.URL.Scheme != "https" {
		return nil, compute.Errorf(compute.Conflict, "host %s has no https address (host.agent_url)", to.Name)
	}
	text, err := json.Marshal(of)
	if err != nil {
		return nil, err
	}
	r.Header.Set(headerArrival, string(text))
	return r, nil
}

// notTaken is the error of a host that does not take a server.
func notTaken(resp *http.Response, to compute.Agent, of compute.Arrival) error {
	kind, said := refusal(resp)
	return compute.Errorf(kind, "host %s does not take server %s: %w", to.Name, of.Server, said)
}
