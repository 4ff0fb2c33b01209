package agent

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"strongroom/compute"
	"strongroom/worker/pki"
)

// pathConsoles lists a server's consoles, and opens them.
const pathConsoles = "/consoles/"

// consoleProtocol is what a connection becomes that carries a console.
const consoleProtocol = "strongroom-console"

// consoleStall is how long one side of a console may take nothing of what the other one says. A guest whose serial line
// nobody reads stands still as soon as QEMU's socket is full.
const consoleStall = 10 * time.Second

// Consoles are those of the machines of this host. Of each there is one session at a time: a new one ends that before, whose
// user may have gone long ago.
type Consoles struct {
	// List fails with NotFound where no machine of the server runs here.
	List func(ctx context.Context, server compute.ServerID) ([]compute.ConsoleType, error)
	// Open connects to a console. NotFound: no machine of the server runs here, or it has no such console.
	Open func(ctx context.Context, server compute.ServerID, of compute.ConsoleType) (net.Conn, error)

	mu   sync.Mutex
	used map[console]*session
}

type console struct {
	server compute.ServerID
	of     compute.ConsoleType
}

type session struct {
	end   context.CancelFunc
	ended chan struct{}
}

// take gives a console to a new session, once that before has ended.
func (c *Consoles) take(ctx context.Context, of console) (context.Context, func()) {
	ctx, end := context.WithCancel(ctx)
	s := &session{end, make(chan struct{})}
	c.mu.Lock()
	before := c.used[of]
	if c.used == nil {
		c.used = map[console]*session{}
	}
	c.used[of] = s
	c.mu.Unlock()
	if before != nil {
		before.end()
		<-before.ended
	}
	return ctx, func() {
		end()
		c.mu.Lock()
		if c.used[of] == s {
			delete(c.used, of)
		}
		c.mu.Unlock()
		close(s.ended)
	}
}

// listConsoles tells the api which consoles a server's machine has.
func (s Server) listConsoles(w http.ResponseWriter, r *http.Request) {
	of, ok := consoleOf(w, r)
	if !ok {
		return
	}
	types, err := s.Consoles.List(r.Context(), of.server)
	if err != nil {
		s.refuseConsole(w, r, of, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(types)
}

// openConsole joins a connection of the console proxy to a console.
func (s Server) openConsole(w http.ResponseWriter, r *http.Request) {
	of, ok := consoleOf(w, r)
	if !ok {
		return
	}
	ctx, end := s.Consoles.take(context.WithoutCancel(r.Context()), of)
	defer end()
	line, err := s.Consoles.Open(ctx, of.server, of.of)
	if err != nil {
		s.refuseConsole(w, r, of, err)
		return
	}
	defer func() { _ = line.Close() }()
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		s.refuseConsole(w, r, of, err)
		return
	}
	defer func() { _ = conn.Close() }()
	if buffered.Reader.Buffered() > 0 { // who asks waits for the answer
		return
	}
	_ = conn.SetDeadline(time.Time{})
	if _, err := io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+consoleProtocol+"\r\n\r\n"); err != nil {
		return
	}
	began := time.Now()
	s.Logger.InfoContext(ctx, "a console was opened", "server", of.server, "type", of.of)
	err = relay(ctx, line, conn)
	s.Logger.InfoContext(ctx, "a console was closed", "server", of.server, "type", of.of, "after", time.Since(began).Round(time.Second), "why", closing(ctx, err))
}

// closing says why a console was closed.
func closing(ctx context.Context, err error) string {
	switch {
	case ctx.Err() != nil:
		return "a newer session took it"
	case err == nil, errors.Is(err, io.EOF):
		return "one side closed it"
	default:
		return err.Error()
	}
}

// relay copies between both until one of them ends, takes nothing for consoleStall, or ctx ends. It closes both.
func relay(ctx context.Context, a, b net.Conn) error {
	stop := context.AfterFunc(ctx, func() {
		_ = a.Close()
		_ = b.Close()
	})
	defer stop()
	ended := make(chan error, 2)
	pass := func(to, from net.Conn) {
		ended <- passOn(to, from)
		_ = a.Close()
		_ = b.Close()
	}
	go pass(a, b)
	go pass(b, a)
	first, second := <-ended, <-ended
	return cmp.Or(first, second)
}

func passOn(to, from net.Conn) error {
	p := make([]byte, 32<<10)
	for {
		n, err := from.Read(p)
		if n > 0 {
			_ = to.SetWriteDeadline(time.Now().Add(consoleStall))
			if _, err := to.Write(p[:n]); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
}

func consoleOf(w http.ResponseWriter, r *http.Request) (of console, ok bool) {
	if err := of.server.UnmarshalText([]byte(r.PathValue("server"))); err != nil {
		http.Error(w, "no server id", http.StatusBadRequest)
		return of, false
	}
	of.of = compute.ConsoleType(r.PathValue("type"))
	return of, true
}

func (s Server) refuseConsole(w http.ResponseWriter, r *http.Request, of console, err error) {
	if compute.Is(err, compute.NotFound) {
		http.Error(w, "the server has no such console here", http.StatusGone) // hosts of earlier releases answer 404 to all of this
		return
	}
	s.Logger.ErrorContext(r.Context(), "consoles of a server", "server", of.server, "error", err)
	http.Error(w, "the console does not answer", http.StatusServiceUnavailable)
}

// Consoles lists the consoles of a server's machine on the host at url. NotFound: none runs there; Unavailable: the host does
// not answer, or it is another that does.
func (c Client) Consoles(ctx context.Context, host compute.HostID, url string, server compute.ServerID) (types []compute.ConsoleType, err error) {
	text, err := c.read(ctx, host, fmt.Sprintf("%s%s%s", url, pathConsoles, server), server, http.StatusGone, "machine that runs on its host")
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &types); err != nil {
		return nil, compute.Errorf(compute.Unavailable, "the host of server %s answered something else: %w", server, err)
	}
	return slices.Clip(types), nil
}

// OpenConsole connects to a console of a server's machine, for as long as accepts, which is given the host's certificate, fails
// with no other error than Unavailable. NotFound: there is none.
func (c Client) OpenConsole(
	ctx context.Context, host compute.Agent, server compute.ServerID, of compute.ConsoleType, accepts func(context.Context, *x509.Certificate) error,
) (net.Conn, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("%s%s%s/%s", host.URL, pathConsoles, server, of), http.NoBody)
	if err != nil || r.URL.Scheme != "https" {
		return nil, compute.Errorf(compute.Unavailable, "host %s has no https address (host.agent_url)", host.Name)
	}
	called := c.to(host, accepts)
	conn, resp, err := called.upgrade(ctx, r, consoleProtocol)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return stream{conn, called.watched(ctx, conn.Close)}, nil
	}
	defer func() { _ = conn.Close() }()
	if resp.StatusCode == http.StatusGone {
		return nil, compute.Errorf(compute.NotFound, "server %s has no such console on host %s", server, host.Name)
	}
	return nil, compute.Errorf(compute.Unavailable, "host %s answered %d", host.Name, resp.StatusCode)
}

// maxUpgradeAnswer bounds what a host says before its stream, or instead of it.
const maxUpgradeAnswer = 64 << 10

// upgrade asks a host for a connection of another protocol. Where it answers that it does not switch, that is left to read.
func (h *called) upgrade(ctx context.Context, r *http.Request, protocol string) (*tls.Conn, *http.Response, error) {
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", protocol)
	dialing, cancel := context.WithTimeout(ctx, stall)
	defer cancel()
	dialed, err := (&tls.Dialer{NetDialer: &net.Dialer{Timeout: 10 * time.Second}, Config: h.tls(dialing)}).DialContext(dialing, "tcp", r.URL.Host)
	if err != nil {
		return nil, nil, h.failure(err)
	}
	conn := dialed.(*tls.Conn)
	stop := context.AfterFunc(dialing, func() { _ = conn.Close() })
	defer stop()
	var resp *http.Response
	if err = r.Write(conn); err == nil {
		resp, err = http.ReadResponse(bufio.NewReader(oneByOne{io.LimitReader(conn, maxUpgradeAnswer)}), r)
	}
	if err != nil {
		_ = conn.Close()
		return nil, nil, compute.Errorf(compute.Unavailable, "host %s does not answer: %w", h.Name, err)
	}
	if resp.StatusCode != http.StatusSwitchingProtocols { // why is read yet
		_ = conn.SetDeadline(time.Now().Add(consoleStall))
	}
	return conn, resp, nil
}

// forConsoles lets in the console proxy alone.
func (s Server) forConsoles(h http.HandlerFunc) http.HandlerFunc {
	return s.forOne(pki.ConsoleProxy, h)
}
