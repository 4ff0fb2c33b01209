package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"strongroom/compute"
	"strongroom/compute/metadata"
	"strongroom/worker/pki"
)

// Client asks a gateway on behalf of a host.
type Client struct {
	url       string
	identity  *pki.Identity
	connected atomic.Pointer[http.Client]
}

// How long an answer may take: to JSON, behind which there may be a key manager that takes
// its time; and to the last byte of an image, which the image store may look at before it
// answers.
const (
	answerTime = 3 * time.Minute
	streamTime = 10 * time.Minute
)

// Dial gives a client of the gateway at an https URL. It connects at its first call.
func Dial(url string, id *pki.Identity) *Client {
	c := &Client{url: strings.TrimSuffix(url, "/"), identity: id}
	c.reconnect()
	return c
}

// reconnect makes calls from now on over new connections, with the newest certificate.
func (c *Client) reconnect() {
	before := c.connected.Swap(pki.HTTPClient(&http.Transport{
		TLSClientConfig: c.identity.Client(pki.Gateway), MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute,
		TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: streamTime, ExpectContinueTimeout: answerTime,
		WriteBufferSize: 256 << 10,
	}))
	if before != nil {
		before.CloseIdleConnections()
	}
}

// Report writes the host's row.
func (c *Client) Report(ctx context.Context, report HostReport) error {
	return c.ask(ctx, http.MethodPut, pathHost, report, nil)
}

// Seen says that the host runs.
func (c *Client) Seen(ctx context.Context) (out []AtRest, err error) {
	return out, c.ask(ctx, http.MethodPost, pathSeen, struct{}{}, &out)
}

// SyncPower says what the hypervisor shows of servers that are at rest.
func (c *Client) SyncPower(ctx context.Context, found []FoundPower) error {
	return c.ask(ctx, http.MethodPost, pathPower, found, nil)
}

// Progress says how far the operation on a server is.
func (c *Client) Progress(ctx context.Context, server compute.ServerID, percent int) error {
	return c.ask(ctx, http.MethodPost, pathProgress(server), progressReport{Percent: percent}, nil)
}

// MetadataAfter gives what a server may know of itself.
func (c *Client) MetadataAfter(ctx context.Context, server compute.ServerID, ahead *compute.OperationID) (out metadata.Server, err error) {
	path := pathMetadata(server)
	if ahead != nil {
		path += "?ahead=" + string(*ahead)
	}
	return out, c.ask(ctx, http.MethodGet, path, nil, &out)
}

// Renew gets a newer certificate for new keys.
func (c *Client) Renew(ctx context.Context, in EnrollRequest) (out EnrollAnswer, err error) {
	return out, c.ask(ctx, http.MethodPost, pathRenew, in, &out)
}

// ask calls the gateway with JSON and reads its answer, unless out is nil.
func (c *Client) ask(ctx context.Context, method, path string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	var body io.Reader
	if in != nil {
		body = bytes.NewReader(marshal(in))
	}
	resp, err := c.do(ctx, method, path, body, "")
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	return decode(resp, out)
}

// decode reads an answer, unless out is nil.
func decode(resp *http.Response, out any) (err error) {
	if out == nil {
		_, err = io.Copy(io.Discard, resp.Body)
	} else {
		err = json.NewDecoder(resp.Body).Decode(out)
	}
	if err != nil {
		return compute.Errorf(compute.Unavailable, "the gateway's answer broke off: %w", err)
	}
	return nil
}

// do makes one call. An answer that is an error is given as one.
func (c *Client) do(ctx context.Context, method, path string, body io.Reader, about string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.url+path, body)
	if err != nil {
		return nil, compute.Errorf(compute.Invalid, "host.gateway %s: %w", c.url, err)
	}
	if about != "" {
		r.Header.Set(headerPurpose, about)
	}
	if method == http.MethodPut && about != "" {
		r.Header.Set("Expect", "100-continue") // an image is not sent before it is known to be welcome
	}
	client := c.connected.Load()
	resp, err := client.Do(r)
	if err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) { // the other connections may be to the same gateway, which died
			client.CloseIdleConnections()
		}
		return nil, compute.Errorf(compute.Unavailable, "the gateway does not answer: %w", err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer func() { _ = resp.Body.Close() }()
	return nil, failed(resp)
}

func failed(resp *http.Response) error {
	var f failure
	err := json.NewDecoder(io.LimitReader(resp.Body, 64<<10)).Decode(&f)
	switch {
	case err == nil && f.Message != "":
		return f.err()
	case resp.StatusCode == http.StatusNotFound:
		return compute.Errorf(compute.Unavailable, "the gateway does not know %s: is it of an older release than this host? Gateways are upgraded before hosts", resp.Request.URL.Path)
	default: // not a gateway's: that of a load balancer, say
		return compute.Errorf(compute.Unavailable, "the gateway answered %s", resp.Status)
	}
}

// Enroll gets a host's first certificate from the gateway at an https URL.
func Enroll(ctx context.Context, url, token string, in EnrollRequest, keys pki.Keys) (*pki.Enrolled, error) {
	parsed, err := ParseToken(token)
	if err != nil {
		return nil, err
	}
	var got pki.Enrolled
	client := &Client{url: strings.TrimSuffix(url, "/")}
	client.connected.Store(pki.HTTPClient(&http.Transport{
		TLSClientConfig: pki.ByFingerprint(parsed.Fingerprint, &got), DisableKeepAlives: true,
	}))
	in.Token = token
	var answer EnrollAnswer
	if err := client.ask(ctx, http.MethodPost, pathEnroll, in, &answer); err != nil {
		return nil, err
	}
	got.Name = answer.Name
	if got.Cert, err = pki.ParseFor(answer.Certificate, in.Host, keys); err != nil {
		return nil, fmt.Errorf("the gateway's answer: %w", err)
	}
	if got.CA == nil {
		return nil, errors.New("the gateway showed no authority")
	}
	return &got, nil
}
