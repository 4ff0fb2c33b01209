package console_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/api/console"
	"strongroom/compute"
)

// bundle is a proxy with a console behind the token "good", once.
type bundle struct {
	url   string
	lines chan net.Conn // the host's ends
	log   buffer

	mu   sync.Mutex
	used bool
	down bool // no console answers
}

type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func setup(t *testing.T, change ...func(*console.Config)) *bundle {
	t.Helper()
	b := &bundle{lines: make(chan net.Conn, 10)}
	cfg := console.Config{
		Logger: slog.New(slog.NewTextHandler(&b.log, nil)),
		Use: func(_ context.Context, token string) (console.Console, error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			if token != "good" || b.used {
				return console.Console{}, compute.Errorf(compute.NotFound, "no")
			}
			b.used = true
			return console.Console{Server: compute.ServerID{UUID: uuid.New()}, Type: compute.ConsoleSerial, Host: compute.Agent{Name: "node-1"}}, nil
		},
		Open: func(context.Context, console.Console) (net.Conn, error) {
			if b.down {
				return nil, compute.Errorf(compute.Unavailable, "host node-1 does not answer")
			}
			proxy, host := net.Pipe()
			b.lines <- host
			return proxy, nil
		},
	}
	for _, c := range change {
		c(&cfg)
	}
	server := httptest.NewServer(console.New(cfg))
	t.Cleanup(server.Close)
	b.url = server.URL
	return b
}

// dial opens a console; else it gives the status of the answer.
func (b *bundle) dial(t *testing.T, token string, header http.Header) (client *websocket.Conn, status int, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client, resp, err := websocket.Dial(ctx, b.url+"/?token="+token, &websocket.DialOptions{Subprotocols: []string{console.Subprotocol}, HTTPHeader: header})
	require.NotNil(t, resp)
	if resp.Body != nil {
		require.NoError(t, resp.Body.Close())
	}
	return client, resp.StatusCode, err
}

func TestSession(t *testing.T) {
	t.Parallel()
	b := setup(t)
	client, _, err := b.dial(t, "good", nil)
	require.NoError(t, err)
	require.Equal(t, console.Subprotocol, client.Subprotocol())
	host := <-b.lines
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	// What is typed arrives, as bytes or as text, and so does what the guest says.
	for kind, text := range map[websocket.MessageType]string{websocket.MessageBinary: "ls\r\x00", websocket.MessageText: "pwd\r"} {
		require.NoError(t, client.Write(ctx, kind, []byte(text)))
		got := make([]byte, len(text))
		_, err = io.ReadFull(host, got)
		require.NoError(t, err)
		require.Equal(t, text, string(got))
	}
	_, err = host.Write([]byte("a\xff"))
	require.NoError(t, err)
	kind, said, err := client.Read(ctx)
	require.NoError(t, err)
	require.Equal(t, []any{websocket.MessageBinary, "a\xff"}, []any{kind, string(said)})

	// A token is good once, also while its session goes on.
	_, status, err := b.dial(t, "good", nil)
	require.Error(t, err)
	require.Equal(t, http.StatusForbidden, status)

	// The machine stops.
	require.NoError(t, host.Close())
	_, _, err = client.Read(ctx)
	require.Equal(t, websocket.StatusGoingAway, websocket.CloseStatus(err), "%v", err)
	require.Eventually(t, func() bool { return strings.Contains(b.log.String(), "a console was closed") }, time.Minute, 10*time.Millisecond)
	require.NotContains(t, b.log.String(), "good")
}

// A client that goes leaves no open line, whether it says so or not.
func TestTheClientGoes(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(*websocket.Conn) error{
		"politely": func(c *websocket.Conn) error { return c.Close(websocket.StatusNormalClosure, "") },
		"at once":  func(c *websocket.Conn) error { return c.CloseNow() },
	} {
		b := setup(t)
		client, _, err := b.dial(t, "good", nil)
		require.NoError(t, err)
		host := <-b.lines
		require.NoError(t, host.SetReadDeadline(time.Now().Add(10*time.Second)))
		go func() { _ = leave(client) }()
		_, err = host.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF, name)
	}
}

func TestNoSession(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, token := range []string{"", "bad"} {
		_, status, err := b.dial(t, token, nil)
		require.Error(t, err)
		require.Equal(t, http.StatusForbidden, status)
	}
	require.Empty(t, b.lines)

	b.down = true
	_, status, err := b.dial(t, "good", nil)
	require.Error(t, err)
	require.Equal(t, http.StatusServiceUnavailable, status)

	// A page of another site opens no console, unless it is said that it may.
	elsewhere := http.Header{"Origin": {"https://dashboard.example"}}
	b = setup(t)
	_, status, err = b.dial(t, "good", elsewhere)
	require.Error(t, err)
	require.Equal(t, http.StatusForbidden, status)
	require.Contains(t, b.log.String(), "dashboard.example")
	require.Empty(t, b.lines, "whoever sits there is not disturbed")
	_, _, err = b.dial(t, "good", http.Header{"Origin": {b.url}})
	require.NoError(t, err, "its own page may, and the token is good still")
	b = setup(t, func(c *console.Config) { c.Origins = []string{"dashboard.example"} })
	_, _, err = b.dial(t, "good", elsewhere)
	require.NoError(t, err)
	b = setup(t, func(c *console.Config) { c.Host = "dashboard.example" })
	_, _, err = b.dial(t, "good", elsewhere)
	require.NoError(t, err, "a load balancer names another host")
}

// What only looks like a handshake takes no token.
func TestNoHandshake(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.url+"/?token=good", nil)
	require.NoError(t, err)
	r.Header.Set("Upgrade", "websocket")
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusUpgradeRequired, resp.StatusCode)
	require.Empty(t, b.lines)
	_, _, err = b.dial(t, "good", nil)
	require.NoError(t, err)
}

func (b *bundle) get(t *testing.T, path string) (int, http.Header, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.url+path, nil)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer func() { require.NoError(t, resp.Body.Close()) }()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, resp.Header, string(body)
}

// A browser gets a page at the very address of the console, and that does not use the token.
func TestPage(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, text := range map[string]string{
		"xterm.js": `module.exports = require("./public/Terminal").Terminal;`, "public/Terminal.js": `exports.Terminal = 1;`,
		"Terminal.test.js": "no test", "addons/fit.js": "no addon", "xterm.css": ".xterm {}",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(folder, "lib", name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(folder, "lib", name), []byte(text), 0o644))
	}
	b := setup(t, func(c *console.Config) { c.XTerm = folder })
	code, header, page := b.get(t, "/?token=good")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, page, `src="terminal/terminal.js"`)
	require.Equal(t, []string{"no-referrer", "no-store"}, []string{header.Get("Referrer-Policy"), header.Get("Cache-Control")})
	require.Contains(t, header.Get("Content-Security-Policy"), "default-src 'self'")
	_, _, err := b.dial(t, "good", nil)
	require.NoError(t, err)

	code, _, script := b.get(t, "/terminal/xterm.js")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, script, `all["public/Terminal"]`)
	require.NotContains(t, script, "no test")
	require.NotContains(t, script, "no addon")
	for path, want := range map[string]int{
		"/terminal/xterm.css": 200, "/terminal/terminal.js": 200, "/": 404, "/terminal/": 404, "/terminal/../../etc/passwd": 404, "/terminal/xterm": 404,
	} {
		code, _, _ := b.get(t, path)
		require.Equal(t, want, code, path)
	}
	for path, missing := range map[string]string{"/terminal/xterm.js": "node-xterm", "/novnc/vnc_lite.html": "novnc"} {
		code, _, said := setup(t).get(t, path)
		require.Equal(t, http.StatusNotFound, code)
		require.Contains(t, said, "Debian's package "+missing+" is not there")
	}
	require.NoError(t, os.WriteFile(filepath.Join(folder, "vnc_lite.html"), []byte("<canvas>"), 0o644))
	b = setup(t, func(c *console.Config) { c.NoVNC, c.Origins = folder, []string{"dashboard.example"} })
	code, header, page = b.get(t, "/novnc/vnc_lite.html?path=%3Ftoken%3Dgood")
	require.Equal(t, []any{http.StatusOK, "<canvas>"}, []any{code, page})
	require.Contains(t, header.Get("Content-Security-Policy"), "frame-ancestors 'self' dashboard.example")
	for _, listing := range []string{"/novnc/", "/novnc/lib/"} {
		code, _, _ = b.get(t, listing)
		require.Equal(t, http.StatusNotFound, code, listing)
	}
}

// noVNC's page shows the screen of any host that a link to it names, if the browser lets it connect there.
func TestPagesConnectToTheProxyAlone(t *testing.T) {
	t.Parallel()
	for asked, want := range map[string]string{
		"127.0.0.1:6080":       "'self' ws://127.0.0.1:6080 wss://127.0.0.1:6080 ws://consoles.example wss://consoles.example",
		"[::1]:6080":           "'self' ws://consoles.example wss://consoles.example",
		"x;script-src evil.io": "'self' ws://consoles.example wss://consoles.example",
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/novnc/vnc_lite.html?host=evil.example", nil)
		r.Host = asked
		w := httptest.NewRecorder()
		console.New(console.Config{Host: "consoles.example", NoVNC: t.TempDir()}).ServeHTTP(w, r)
		policy := w.Header().Get("Content-Security-Policy")
		_, connect, _ := strings.Cut(policy, "connect-src ")
		connect, _, _ = strings.Cut(connect, ";")
		require.Equal(t, want, connect)
		require.NotContains(t, policy, "evil")
		require.Contains(t, policy, "base-uri 'none'")
	}
}
