package integration_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/coder/websocket"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/remoteconsoles"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/deploy/await"
	"strongroom/integration/browser"
)

// consoleURL asks for a console of a server: the address of its WebSocket.
func (c *testCloud) consoleURL(t *testing.T, id string, of remoteconsoles.ConsoleType) (string, error) {
	t.Helper()
	opts := remoteconsoles.CreateOpts{Protocol: remoteconsoles.ConsoleProtocolSerial, Type: of}
	if of == remoteconsoles.ConsoleTypeNoVNC {
		opts.Protocol = remoteconsoles.ConsoleProtocolVNC
	}
	got, err := remoteconsoles.Create(t.Context(), c.compute(t, "-demo"), id, opts).Extract()
	if err != nil {
		return "", err
	}
	if page, token, ok := strings.Cut(got.URL, "/novnc/vnc_lite.html?path=%3Ftoken%3D"); ok {
		return page + "/?token=" + token, nil
	}
	return got.URL, nil
}

// sitting is a session at a console.
type sitting struct {
	*serial
	token string
	ended chan sessionEnd
}

type sessionEnd struct {
	at  time.Time
	err error
}

// sit opens a console as browsers do.
func (c *testCloud) sit(t *testing.T, url string) (*sitting, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), settleTimeout)
	defer cancel()
	conn, resp, err := websocket.Dial(ctx, url, &websocket.DialOptions{Subprotocols: []string{"binary"}})
	if resp != nil && resp.Body != nil {
		defer func() { _ = resp.Body.Close() }()
	}
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = conn.CloseNow() })
	line := websocket.NetConn(context.Background(), conn, websocket.MessageBinary)
	out, in, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { _ = out.Close() })
	_, token, _ := strings.Cut(url, "?token=")
	s := &sitting{serial: &serial{t: t, conn: line, out: out, in: bufio.NewReader(out)}, token: token, ended: make(chan sessionEnd, 1)}
	go func() {
		_, err := io.Copy(in, line)
		s.ended <- sessionEnd{time.Now(), err}
		_ = in.Close()
	}()
	return s, nil
}

// seated opens a console of a server, for as long as its proxy or host may be starting.
func (c *testCloud) seated(t *testing.T, id string, of remoteconsoles.ConsoleType) (s *sitting) {
	t.Helper()
	var problem error
	err := await.Until("a console of server "+id, func() bool {
		url, err := c.consoleURL(t, id, of)
		if err == nil {
			s, err = c.sit(t, url)
		}
		problem = err
		return err == nil
	}, c.progress(id))
	require.NoError(t, err, "%v", problem)
	return s
}

// isCut requires that a session ends, within half a minute.
func (s *sitting) isCut(why string) {
	s.t.Helper()
	asked := time.Now()
	await.For(s.t, "the session ends: "+why, func() bool { return len(s.ended) > 0 })
	end := <-s.ended
	require.LessOrEqual(s.t, end.at.Sub(asked), 30*time.Second, why)
	s.t.Log("after the", why, "the session has ended:", end.err)
}

// showsScreen requires that a screen is there: RFC 6143 has its server speak first.
func (s *sitting) showsScreen() {
	s.t.Helper()
	require.NoError(s.t, s.out.SetReadDeadline(time.Now().Add(settleTimeout)))
	greeting := make([]byte, 12)
	_, err := io.ReadFull(s.in, greeting)
	require.NoError(s.t, err)
	require.Equal(s.t, "RFB 003.008\n", string(greeting))
}

// tokens counts the tokens of a server in the database.
func (c *testCloud) tokens(t *testing.T, id string) (n int) {
	t.Helper()
	require.NoError(t, c.database(t).QueryRow(t.Context(), "SELECT count(*) FROM console_tokens WHERE server_id = $1", id).Scan(&n))
	return n
}

// hasToken reports whether a token is good still.
func (c *testCloud) hasToken(t *testing.T, token string) (has bool) {
	t.Helper()
	require.NoError(t, c.database(t).QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM console_tokens WHERE hash = $1)", compute.ConsoleTokenHash(token)).Scan(&has))
	return has
}

// forgets waits until no token of a server is left: those that nobody used go with the server.
func (c *testCloud) forgets(t *testing.T, id string) {
	t.Helper()
	await.For(t, "no token of server "+id+" is left", func() bool { return c.tokens(t, id) == 0 })
}

// nowhere requires that no log has a token.
func (c *testCloud) nowhere(t *testing.T, tokens ...string) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Dir(c.LogFile("api")) + "/*")
	require.NoError(t, err)
	require.NotEmpty(t, logs)
	for _, file := range logs {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, token := range tokens {
			require.NotContains(t, string(text), token, invariant+file)
		}
	}
}

const (
	serialConsole = remoteconsoles.ConsoleTypeSerial
	screenConsole = remoteconsoles.ConsoleTypeNoVNC
)

// A guest is talked to on its serial line and its screen is seen, by the standard client's addresses and by the command line:
// once with each token, one at a time, and no longer than its machine runs.
func TestConsoles(t *testing.T) {
	backends(t, local, openStack)
	c := sharedCloud(t)
	id := c.create(t, encryptedTIS)
	c.becomes(t, id, "ACTIVE")
	c.console(t, id, "TG ready", 1)

	python := c.python(t, "-demo")
	url := python.show("console", "url", "show", "--serial", id)["url"].(string)
	require.True(t, strings.HasPrefix(url, "ws://127.0.0.1:"), url)
	require.Equal(t, 1, c.tokens(t, id))
	first, err := c.sit(t, url)
	require.NoError(t, err)
	require.Equal(t, "one", first.ask("ping one", "TG pong "))
	require.Zero(t, c.tokens(t, id), "it is used")
	_, err = c.sit(t, url)
	require.ErrorContains(t, err, "403", "it is good once")
	require.Equal(t, "two", first.ask("ping two", "TG pong "), "and that changes nothing for who used it")
	c.console(t, id, "TG pong two", 1) // the log has it as ever
	require.Contains(t, python.show("console", "url", "show", "--novnc", id)["url"], "/novnc/vnc_lite.html?path=")

	// The command line takes the line from whoever has it.
	program := c.program("server", "console", id)
	in, err := program.StdinPipe()
	require.NoError(t, err)
	out, err := program.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, program.Start())
	t.Cleanup(func() { _ = program.Process.Kill(); _ = program.Wait() })
	first.isCut("a newer session took it")
	_, err = io.WriteString(in, "ping three\n")
	require.NoError(t, err)
	said := bufio.NewReader(out)
	for line := ""; !strings.Contains(line, "TG pong three"); {
		line, err = said.ReadString('\n')
		require.NoError(t, err)
	}
	_, err = io.WriteString(in, "\x1d")
	require.NoError(t, err)
	require.NoError(t, program.Wait(), "Ctrl-] is a good end")

	// Both consoles end with the machine, and are there again with the next one.
	demo := c.compute(t, "-demo")
	line, screen := c.seated(t, id, serialConsole), c.seated(t, id, screenConsole)
	screen.showsScreen()
	unused, err := c.consoleURL(t, id, serialConsole)
	require.NoError(t, err)
	require.NoError(t, servers.Reboot(t.Context(), demo, id, servers.RebootOpts{Type: servers.HardReboot}).ExtractErr())
	line.isCut("hard reboot")
	screen.isCut("hard reboot")
	c.becomes(t, id, "ACTIVE")
	c.console(t, id, "TG ready", 2)
	line, screen = c.seated(t, id, serialConsole), c.seated(t, id, screenConsole)
	screen.showsScreen()
	require.Equal(t, "four", line.ask("ping four", "TG pong "))
	require.NoError(t, servers.Stop(t.Context(), demo, id).ExtractErr())
	line.isCut("stop")
	screen.isCut("stop")
	c.becomes(t, id, "SHUTOFF")
	_, err = c.consoleURL(t, id, serialConsole)
	require.True(t, gophercloud.ResponseCodeIs(err, http.StatusConflict), "%v", err)
	_, err = c.sit(t, unused)
	require.Error(t, err, "its machine is off")
	require.NoError(t, servers.Start(t.Context(), demo, id).ExtractErr())
	c.becomes(t, id, "ACTIVE")
	line, screen = c.seated(t, id, serialConsole), c.seated(t, id, screenConsole)
	unused, err = c.consoleURL(t, id, screenConsole)
	require.NoError(t, err)
	c.delete(t, id)
	line.isCut("delete")
	screen.isCut("delete")
	_, err = c.sit(t, unused)
	require.ErrorContains(t, err, "403", "its server is gone")
	c.forgets(t, id)
	c.nowhere(t, first.token, line.token, screen.token, unused[strings.LastIndex(unused, "=")+1:])
}

// People see the guest's screen in a browser, with Debian's noVNC, and type on its serial line, with Debian's xterm.js.
func TestConsolesInABrowser(t *testing.T) {
	onDemand(t, local)
	c := sharedCloud(t)
	id := c.create(t, encryptedTIS)
	c.becomes(t, id, "ACTIVE")
	c.console(t, id, "TG ready", 1)
	page := func(kind string) string {
		url, ok := c.python(t, "-demo").show("console", "url", "show", kind, id)["url"].(string)
		require.True(t, ok)
		return strings.Replace(url, "ws://", "http://", 1)
	}

	b := browser.Open(t)
	b.Goes(page("--serial"))
	b.Shows("Connected")
	b.Does(chromedp.SendKeys(".xterm-helper-textarea", "ping browser\r"))
	c.console(t, id, "TG pong browser", 1)
	b.Holds(`(buffer => [...Array(buffer.lines.length).keys()].some(line => buffer.translateBufferLineToString(line, true).includes("TG pong browser")))(term._core.buffer)`)
	b.Holds(`!location.href.includes("token")`)
	b.Picture("console-serial")

	b.Goes(page("--novnc"))
	b.Shows("Connected")
	b.Holds(`(screen => screen && new Set(new Uint32Array(screen.getContext("2d").getImageData(0, 0, screen.width, screen.height).data.buffer)).size > 1)(document.querySelector("canvas"))`)
	b.Picture("console-screen")

	c.delete(t, id)
	b.Shows("Disconnected")
	c.forgets(t, id)
}

// Whatever dies in the middle of a session, that ends, leaves no token, and keeps nobody from the next one; the guest does not
// notice.
func TestKillMatrixConsoles(t *testing.T) {
	backends(t, local, openStack)
	c := ownCloud(t)
	id := c.create(t, encryptedTIS)
	c.becomes(t, id, "ACTIVE")
	c.console(t, id, "TG ready", 1)
	for _, part := range []string{"console-proxy", "host"} {
		line, screen := c.seated(t, id, serialConsole), c.seated(t, id, screenConsole)
		require.Equal(t, part, line.ask("ping "+part, "TG pong "))
		screen.showsScreen()
		c.kill(t, part)
		line.isCut(part)
		screen.isCut(part)
		for _, token := range []string{line.token, screen.token} {
			require.False(t, c.hasToken(t, token), part)
		}
		again := c.seated(t, id, serialConsole)
		require.Equal(t, "again-"+part, again.ask("ping again-"+part, "TG pong "))
		c.seated(t, id, screenConsole).showsScreen()
	}
	// What a session needs of the api, the gateway and the control workers it needs at its beginning alone.
	line := c.seated(t, id, serialConsole)
	for _, part := range []string{"api", "gateway", "control"} {
		c.kill(t, part)
		require.Equal(t, part, line.ask("ping "+part, "TG pong "))
	}
	require.Contains(t, c.console(t, id, "TG ready", 1), "boots=1")
	c.shows(t, id, "ACTIVE", servers.RUNNING) // the api answers again
	c.delete(t, id)
	line.isCut("delete")
	c.forgets(t, id)
	require.Empty(t, c.audit(t).Findings)
}

// A guest that moves while it runs takes its consoles along: sessions end, tokens for the host that it left open nothing, and both
// are there on the other one.
func TestConsolesOfAGuestThatMoves(t *testing.T) {
	backends(t, local, openStack)
	c := twoHosts(t)
	a, b := c.Host(1), c.Host(2)
	id := c.on(t, a, func() string { return c.create(t, delegated) })
	c.becomes(t, id, "ACTIVE")
	c.console(t, id, "TG ready", 1)
	for _, to := range []string{hostName(t, b), hostName(t, a)} {
		from := c.hostOf(t, id)
		line, screen := c.seated(t, id, serialConsole), c.seated(t, id, screenConsole)
		screen.showsScreen()
		unused, err := c.consoleURL(t, id, serialConsole)
		require.NoError(t, err)
		there := b
		if to == hostName(t, a) {
			there = a
		}
		require.NoError(t, c.liveMigrate(t, id, &there))
		c.becomes(t, id, "ACTIVE")
		require.Empty(t, c.newestAction(t, id).Message)
		c.requireOn(t, there, id)
		line.isCut("it moved")
		screen.isCut("it moved")
		_, err = c.sit(t, unused)
		require.ErrorContains(t, err, "403")
		c.hasNothing(t, from, id)
		require.NoDirExists(t, filepath.Join(filepath.Dir(from.ConsoleSocket(id)), id+".vnc"))
		line = c.seated(t, id, serialConsole)
		require.Equal(t, to, line.ask("ping "+to, "TG pong "))
		c.seated(t, id, screenConsole).showsScreen()
	}
	c.delete(t, id)
	c.nothingIsLeft(t)
}
