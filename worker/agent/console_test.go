package agent_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/worker/agent"
	"strongroom/worker/pki"
)

// consoleHost is a host whose server has a serial line: what is typed comes back.
type consoleHost struct {
	at     compute.Agent
	server compute.ServerID
	qemu   net.Listener // of the line, which has one client at a time
	lines  chan net.Conn
	log    logged
	ca     *pki.Authority
}

func setupConsoleHost(t *testing.T) *consoleHost {
	t.Helper()
	h := &consoleHost{server: compute.ServerID{UUID: uuid.New()}, lines: make(chan net.Conn, 10)}
	var err error
	h.ca, err = pki.Ensure(t.TempDir() + "/ca")
	require.NoError(t, err)
	h.qemu, err = net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = h.qemu.Close() })
	go func() {
		for {
			line, err := h.qemu.Accept()
			if err != nil {
				return
			}
			h.lines <- line
			_, _ = io.Copy(line, line) // the next client waits, as QEMU's does
			_ = line.Close()
		}
	}()
	id := compute.HostID{UUID: uuid.New()}
	url := serve(t, h.identity(t, pki.HostName(id)), agent.Server{
		Logger: slog.New(slog.NewTextHandler(&h.log, nil)),
		Consoles: &agent.Consoles{
			List: func(_ context.Context, server compute.ServerID) ([]compute.ConsoleType, error) {
				if server != h.server {
					return nil, compute.Errorf(compute.NotFound, "none")
				}
				return []compute.ConsoleType{compute.ConsoleSerial}, nil
			},
			Open: func(_ context.Context, server compute.ServerID, of compute.ConsoleType) (net.Conn, error) {
				if server != h.server || of != compute.ConsoleSerial {
					return nil, compute.Errorf(compute.NotFound, "none")
				}
				return net.Dial("unix", h.qemu.Addr().String())
			},
		},
	}.Handler())
	h.at = compute.Agent{Host: id, Name: "node-1", URL: url}
	return h
}

func (h *consoleHost) identity(t *testing.T, name pki.Name) *pki.Identity {
	t.Helper()
	id, err := h.ca.Process(name)
	require.NoError(t, err)
	return id
}

func accepted(context.Context, *x509.Certificate) error { return nil }

func (h *consoleHost) open(t *testing.T, as pki.Name, of compute.ConsoleType) (net.Conn, error) {
	t.Helper()
	line, err := agent.Client{Identity: h.identity(t, as)}.OpenConsole(t.Context(), h.at, h.server, of, accepted)
	if err == nil {
		t.Cleanup(func() { _ = line.Close() })
	}
	return line, err
}

func says(t *testing.T, line net.Conn, text string) {
	t.Helper()
	require.NoError(t, line.SetDeadline(time.Now().Add(10*time.Second)))
	_, err := fmt.Fprintln(line, text)
	require.NoError(t, err)
	got, err := bufio.NewReader(line).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, text+"\n", got)
}

func ends(t *testing.T, line net.Conn) {
	t.Helper()
	if err := line.SetDeadline(time.Now().Add(10 * time.Second)); errors.Is(err, net.ErrClosed) {
		return // it has ended already
	}
	_, err := io.ReadAll(line)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "it goes on")
}

func TestConsoleIsForTheProxyAlone(t *testing.T) {
	t.Parallel()
	h := setupConsoleHost(t)
	line, err := h.open(t, pki.ConsoleProxy, compute.ConsoleSerial)
	require.NoError(t, err)
	says(t, line, "hello")

	for _, name := range []pki.Name{pki.API, pki.Gateway, pki.HostName(h.at.Host), pki.HostName(compute.HostID{UUID: uuid.New()})} {
		_, err := h.open(t, name, compute.ConsoleSerial)
		require.Equal(t, compute.Unavailable, compute.KindOf(err), "%s: %v", name, err)
		require.Len(t, h.log.take("refused: not this cloud's console proxy\" peer="+string(name)), 1)
	}
	require.Len(t, h.lines, 1)

	_, err = h.open(t, pki.ConsoleProxy, compute.ConsoleNoVNC)
	require.Equal(t, compute.NotFound, compute.KindOf(err))
	elsewhere := &consoleHost{at: h.at, server: elsewhereServer, ca: h.ca}
	_, err = elsewhere.open(t, pki.ConsoleProxy, compute.ConsoleSerial)
	require.Equal(t, compute.NotFound, compute.KindOf(err))
	elsewhere.at.Host, elsewhere.server = compute.HostID{UUID: uuid.New()}, h.server
	_, err = elsewhere.open(t, pki.ConsoleProxy, compute.ConsoleSerial)
	require.Equal(t, compute.Unavailable, compute.KindOf(err), "another host is at that address")

	// Which consoles there are, the api is told.
	types, err := agent.Client{Identity: h.identity(t, pki.API)}.Consoles(t.Context(), h.at.Host, h.at.URL, h.server)
	require.NoError(t, err)
	require.Equal(t, []compute.ConsoleType{compute.ConsoleSerial}, types)
	_, err = agent.Client{Identity: h.identity(t, pki.API)}.Consoles(t.Context(), h.at.Host, h.at.URL, elsewhereServer)
	require.Equal(t, compute.NotFound, compute.KindOf(err))
	_, err = agent.Client{Identity: h.identity(t, pki.ConsoleProxy)}.Consoles(t.Context(), h.at.Host, h.at.URL, h.server)
	require.Equal(t, compute.Unavailable, compute.KindOf(err))
}

var elsewhereServer = compute.ServerID{UUID: uuid.MustParse("6d8fcd20-2b52-4d7b-8a54-1c2a9a1f0b11")}

// The end of either side ends the other one: the guest's machine stops, or the user leaves.
func TestConsoleEndsWithEitherSide(t *testing.T) {
	t.Parallel()
	h := setupConsoleHost(t)
	line, err := h.open(t, pki.ConsoleProxy, compute.ConsoleSerial)
	require.NoError(t, err)
	says(t, line, "one")
	require.NoError(t, (<-h.lines).Close())
	ends(t, line)

	line, err = h.open(t, pki.ConsoleProxy, compute.ConsoleSerial)
	require.NoError(t, err)
	says(t, line, "two")
	require.NoError(t, line.Close())
	ends(t, <-h.lines)
}

// A line has one session: a new one takes it from the one before, which may hang on a client that is long gone.
func TestConsoleIsTakenByANewerSession(t *testing.T) {
	t.Parallel()
	h := setupConsoleHost(t)
	first, err := h.open(t, pki.ConsoleProxy, compute.ConsoleSerial)
	require.NoError(t, err)
	says(t, first, "first")
	second, err := h.open(t, pki.ConsoleProxy, compute.ConsoleSerial)
	require.NoError(t, err)
	ends(t, first)
	says(t, second, "second")
	require.Eventually(t, func() bool { return len(h.log.take("a newer session took it")) == 1 }, time.Minute, 10*time.Millisecond)
}

// A session ends when its server is not on the host any more, or the host's certificate is revoked.
func TestConsoleEndsWithItsGrant(t *testing.T) {
	t.Parallel()
	h := setupConsoleHost(t)
	var refused atomic.Bool
	client := agent.Client{Identity: h.identity(t, pki.ConsoleProxy), Again: 50 * time.Millisecond}
	accepts := func(_ context.Context, shown *x509.Certificate) error {
		if name, err := pki.NameOf(shown); err != nil || name != pki.HostName(h.at.Host) {
			return compute.Errorf(compute.Invalid, "not the host's certificate")
		}
		if refused.Load() {
			return compute.Errorf(compute.Forbidden, "it was revoked")
		}
		return nil
	}
	line, err := client.OpenConsole(t.Context(), h.at, h.server, compute.ConsoleSerial, accepts)
	require.NoError(t, err)
	says(t, line, "hello")
	refused.Store(true)
	require.NoError(t, line.SetDeadline(time.Now().Add(10*time.Second)))
	_, err = line.Read(make([]byte, 1))
	require.Equal(t, compute.Forbidden, compute.KindOf(err), "%v", err)
	ends(t, <-h.lines)
	_, err = client.OpenConsole(t.Context(), h.at, h.server, compute.ConsoleSerial, accepts)
	require.Equal(t, compute.Forbidden, compute.KindOf(err), "%v", err)
}

// A host that never comes to an end of its answer is not listened to for long.
func TestConsoleOfAHostThatTalksWithoutEnd(t *testing.T) {
	t.Parallel()
	h := setupConsoleHost(t)
	liar, err := tls.Listen("tcp", "127.0.0.1:0", h.identity(t, pki.HostName(h.at.Host)).Server())
	require.NoError(t, err)
	t.Cleanup(func() { _ = liar.Close() })
	said := make(chan int, 1)
	go func() {
		conn, err := liar.Accept()
		if err != nil {
			return
		}
		n, _ := io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nX-Endless: ")
		for err == nil && n < 64<<20 {
			var more int
			more, err = conn.Write(bytes.Repeat([]byte("x"), 16<<10))
			n += more
		}
		said <- n
		_ = conn.Close()
	}()
	h.at.URL = "https://" + liar.Addr().String()
	_, err = h.open(t, pki.ConsoleProxy, compute.ConsoleSerial)
	require.Equal(t, compute.Unavailable, compute.KindOf(err), "%v", err)
	require.Less(t, <-said, 32<<20, "it was cut off")
}

// A client that takes nothing does not hold up the guest for long: what nobody reads of a serial line stops the guest.
func TestConsoleEndsWhenNobodyReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		guest, line := net.Pipe()
		client, proxy := net.Pipe()
		ended := make(chan error, 1)
		began := time.Now()
		go func() { ended <- agent.Relay(t.Context(), line, proxy) }()
		_, err := guest.Write([]byte("nobody reads this"))
		require.NoError(t, err)
		_, err = guest.Write([]byte("nor this"))
		require.Error(t, err, "the line is closed meanwhile")
		require.Error(t, <-ended)
		require.Equal(t, agent.ConsoleStall, time.Since(began))
		_, err = io.ReadAll(client)
		require.NoError(t, err)
	})
}
