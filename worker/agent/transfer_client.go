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
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"strongroom/activities/disk"
	"strongroom/compute"
)

// Layout implements disk.Transfers.
func (c Client) Layout(ctx context.Context, from compute.Agent, t compute.Transfer) (out disk.Layout, err error) {
	body, _, err := c.fetch(ctx, from, t, pathLayout, nil)
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
func (c Client) Segments(ctx context.Context, from compute.Agent, t compute.Transfer, version string, next int64) (io.ReadCloser, error) {
	body, _, err := c.fetch(ctx, from, t, pathSegments, url.Values{"version": {version}, "next": {strconv.FormatInt(next, 10)}})
	if compute.Is(err, compute.Conflict) && ctx.Err() == nil { // the next attempt looks what the disk is like now, or is told what else is wrong
		err = compute.Errorf(compute.Unavailable, "%w", errors.New(err.Error()))
	}
	return body, err
}

// Image implements disk.Transfers.
func (c Client) Image(ctx context.Context, from compute.Agent, t compute.Transfer) (io.ReadCloser, error) {
	body, _, err := c.fetch(ctx, from, t, pathImage, nil)
	return body, err
}

// TPM implements tpm.Transfers.
func (c Client) TPM(ctx context.Context, from compute.Agent, t compute.Transfer) (data io.ReadCloser, sum string, err error) {
	body, header, err := c.fetch(ctx, from, t, pathTPM, nil)
	return body, header.Get(headerSHA256), err
}

// fetch asks the agent of a host for what a transfer says.
func (c Client) fetch(ctx context.Context, from compute.Agent, t compute.Transfer, path string, query url.Values) (io.ReadCloser, http.Header, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(from.URL, "/")+path+"?"+query.Encode(), nil)
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
		DialContext: (&net.Dialer{Timeout: 10 * time.Second, Control: boundBuffer}).DialContext, TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: stall,
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

// receiveBuffer is what a connection holds, in bytes, that nobody has read. The kernel lets it
// grow with what comes: a receiver that dies behind a slow disk would be sent all of it again.
const receiveBuffer = 1 << 20

// boundBuffer bounds the buffer of a socket before it connects.
func boundBuffer(_, _ string, c syscall.RawConn) error {
	var failed error
	if err := c.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer)
	}); err != nil {
		return err
	}
	return failed
}
