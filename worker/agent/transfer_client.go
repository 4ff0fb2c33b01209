package agent

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"strongroom/activities/disk"
	"strongroom/compute"
)

// Layout implements disk.Transfers.
func (c Client) Layout(ctx context.Context, from compute.Agent, t compute.Transfer) (out disk.Layout, err error) {
	body, _, err := c.fetch(ctx, from, t, pathLayout, nil, nil)
	if err != nil {
		return out, err
	}
	defer func() { _ = body.Close() }()
	data, err := io.ReadAll(io.LimitReader(body, disk.MaxLayoutJSON))
	if err != nil {
		return out, compute.Errorf(compute.Unavailable, "host %s broke off: %w", from.Name, err)
	}
	if err := json.Unmarshal(data, &out); err != nil {
		return out, compute.Errorf(compute.Corrupt, "host %s: what it says of a disk cannot be read", from.Name)
	}
	return out, nil
}

// Segments implements disk.Transfers.
func (c Client) Segments(ctx context.Context, from compute.Agent, t compute.Transfer, version string, next int64) (io.ReadWriteCloser, error) {
	says, got := io.Pipe()
	body, _, err := c.fetch(ctx, from, t, pathSegments, url.Values{"version": {version}, "next": {strconv.FormatInt(next, 10)}}, says)
	if compute.Is(err, compute.Conflict) && ctx.Err() == nil { // the next attempt looks what the disk is like now, or is told what else is wrong
		err = compute.Errorf(compute.Unavailable, "%w", errors.New(err.Error()))
	}
	if err != nil {
		return nil, err
	}
	return answered{body, got}, nil
}

// answered is a stream that is answered while it is read.
type answered struct {
	io.ReadCloser
	*io.PipeWriter
}

// Close implements io.Closer.
func (a answered) Close() error { return errors.Join(a.PipeWriter.Close(), a.ReadCloser.Close()) }

// Image implements disk.Transfers.
func (c Client) Image(ctx context.Context, from compute.Agent, t compute.Transfer) (io.ReadCloser, error) {
	body, _, err := c.fetch(ctx, from, t, pathImage, nil, nil)
	return body, err
}

// TPM implements tpm.Transfers.
func (c Client) TPM(ctx context.Context, from compute.Agent, t compute.Transfer) (data io.ReadCloser, sum string, err error) {
	body, header, err := c.fetch(ctx, from, t, pathTPM, nil, nil)
	return body, header.Get(headerSHA256), err
}

// fetch asks the agent of a host for what a transfer says, and sends it what is said of the answer
// meanwhile (nil: nothing).
func (c Client) fetch(ctx context.Context, from compute.Agent, t compute.Transfer, path string, query url.Values, says io.Reader) (io.ReadCloser, http.Header, error) {
	method := http.MethodGet
	if says != nil {
		method = http.MethodPost
	}
	r, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(from.URL, "/")+path+"?"+query.Encode(), says)
	if err != nil || r.URL.Scheme != "https" {
		return nil, nil, compute.Errorf(compute.Conflict, "host %s has no https address (host.agent_url)", from.Name)
	}
	text, err := json.Marshal(t)
	if err != nil {
		return nil, nil, err
	}
	r.Header.Set(headerTransfer, string(text))
	host := c.toHost(from, compute.Arrival{Server: t.Server, Operation: t.Operation})
	resp, err := host.do(r, &http.Transport{
		DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext, TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: stall,
		MaxResponseHeaderBytes: 64 << 10, ReadBufferSize: 64 << 10,
	})
	if err != nil {
		return nil, nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return newLively(resp.Body, host.watched(ctx, resp.Body.Close)), resp.Header, nil
	}
	defer func() { _ = resp.Body.Close() }()
	kind, said := refusal(resp)
	return nil, nil, compute.Errorf(kind, "host %s hands on no %s of server %s: %w", from.Name, t.Kind, t.Server, said)
}

// lively cuts a stream off of which nothing has come for a while, so that a Read ends.
type lively struct {
	io.ReadCloser
	*watch
	timer *time.Timer
}

func newLively(from io.ReadCloser, w *watch) *lively {
	return &lively{from, w, time.AfterFunc(stall, func() { w.end(errors.New("nothing came for a while")) })}
}

// Read implements io.Reader.
func (l *lively) Read(p []byte) (int, error) {
	l.timer.Reset(stall)
	n, err := l.ReadCloser.Read(p)
	l.timer.Stop() // who reads may take his time
	return n, l.because(err)
}

// Close implements io.Closer.
func (l *lively) Close() error {
	l.timer.Stop()
	l.stop()
	return l.ReadCloser.Close()
}
