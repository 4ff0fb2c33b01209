package api_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/api"
	"strongroom/compute"
)

// tokenOf is the token in the address of a console.
func tokenOf(t *testing.T, address any) string {
	t.Helper()
	at, err := url.Parse(address.(string))
	require.NoError(t, err)
	if path := at.Query().Get("path"); path != "" { // noVNC's
		at, err = url.Parse(path)
		require.NoError(t, err)
	}
	return at.Query().Get("token")
}

func TestConsoles(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	c.consoles.has = []compute.ConsoleType{compute.ConsoleSerial, compute.ConsoleNoVNC}
	id := c.create(nil)
	ask := func(protocol, of string, tweaks ...tweak) answer {
		return c.do(t, member, "POST", "/servers/"+id+"/remote-consoles", `{"remote_console":{"protocol":"`+protocol+`","type":"`+of+`"}}`, tweaks...)
	}
	ask("serial", "serial", at("2.6")).fails(409, "conflictingRequest", "Instance "+id+" is not ready")
	c.settle(id, compute.VMActive, compute.TaskNone)

	serial := ask("serial", "serial", at("2.6")).ok(200).get("remote_console").(map[string]any)
	require.Equal(t, []any{"serial", "serial"}, []any{serial["protocol"], serial["type"]})
	token := tokenOf(t, serial["url"])
	require.Equal(t, "wss://consoles.example/?token="+token, serial["url"])
	require.GreaterOrEqual(t, len(token), 26, "128 bits")
	require.Equal(t, "http://agent", c.consoles.url)

	screen := ask("vnc", "novnc", at("2.97")).ok(200).get("remote_console", "url")
	require.NotEqual(t, token, tokenOf(t, screen))
	require.Equal(t, "https://consoles.example/novnc/vnc_lite.html?path="+url.QueryEscape("?token="+tokenOf(t, screen)), screen)

	require.Equal(t, "serial", c.act(t, member, id, `{"os-getSerialConsole":{"type":"serial"}}`, at("2.1")).ok(200).get("console", "type"))
	old := c.act(t, member, id, `{"os-getVNCConsole":{"type":"novnc"}}`, at("2.5")).ok(200).get("console", "url")
	require.True(t, strings.HasPrefix(old.(string), "https://consoles.example/novnc/"), old)

	// Of each token its hash is kept, the server, the host and the type, and until when.
	require.Equal(t, 4, c.count(`SELECT count(*) FROM console_tokens WHERE server_id = $1 AND host_id = $2`, id, c.host))
	require.Equal(t, 1, c.count(`SELECT count(*) FROM console_tokens WHERE hash = $1 AND type = 'serial'
		AND expires_at BETWEEN now() + interval '9 minutes' AND now() + interval '10 minutes'`, compute.ConsoleTokenHash(token)))
	require.Zero(t, c.count(`SELECT count(*) FROM console_tokens x WHERE x::text LIKE '%' || $1 || '%'`, token))

	// Who asks in a loop has the newest of them.
	c.exec(`INSERT INTO console_tokens SELECT sha256(n::text::bytea), t.server_id, t.host_id, t.type, now() + n * interval '1 second'
		FROM console_tokens t, generate_series(1, 40) n WHERE t.hash = $1`, compute.ConsoleTokenHash(token))
	newest := tokenOf(t, ask("serial", "serial", at("2.6")).ok(200).get("remote_console", "url"))
	require.Equal(t, 32, c.count(`SELECT count(*) FROM console_tokens WHERE server_id = $1`, id))
	require.Equal(t, 2, c.count(`SELECT count(*) FROM console_tokens WHERE hash IN ($1, $2)`, compute.ConsoleTokenHash(newest), compute.ConsoleTokenHash(token)))
	c.exec(`DELETE FROM console_tokens WHERE hash = $1 OR expires_at < now() + interval '1 minute'`, compute.ConsoleTokenHash(newest))

	// What Nova knows and there is not here, and what makes no sense.
	ask("spice", "spice-html5", at("2.6")).fails(400, "badRequest", "Unavailable console type spice-html5.")
	ask("rdp", "rdp-html5", at("2.6")).fails(400, "badRequest", "Unavailable console type rdp-html5.")
	ask("mks", "webmks", at("2.8")).fails(400, "badRequest", "Unavailable console type webmks.")
	ask("mks", "webmks", at("2.7")).ok(400)
	ask("vnc", "serial", at("2.6")).fails(400, "badRequest", "Invalid console type serial")
	ask("serial", "serial", at("2.5")).ok(404)
	c.act(t, member, id, `{"os-getSerialConsole":{"type":"serial"}}`, at("2.6")).ok(404)
	c.act(t, member, id, `{"os-getVNCConsole":{"type":"xvpvnc"}}`, at("2.1")).fails(400, "badRequest", "Unavailable console type xvpvnc.")
	c.act(t, member, id, `{"os-getSPICEConsole":{"type":"spice-html5"}}`, at("2.1")).fails(400, "badRequest", "Unavailable console type spice-html5.")
	c.do(t, reader, "POST", "/servers/"+id+"/remote-consoles", `{"remote_console":{"protocol":"serial","type":"serial"}}`, at("2.6")).ok(403)
	c.do(t, stranger, "POST", "/servers/"+id+"/remote-consoles", `{"remote_console":{"protocol":"serial","type":"serial"}}`, at("2.6")).ok(404)

	// A machine that was started by an earlier release has no screen; one that is off has nothing.
	c.consoles.has = c.consoles.has[:1]
	ask("vnc", "novnc", at("2.6")).fails(400, "badRequest", "Unavailable console type novnc.")
	c.consoles.err = compute.Errorf(compute.NotFound, "none")
	ask("serial", "serial", at("2.6")).fails(409, "conflictingRequest", "Instance "+id+" is not ready")
	c.consoles.err = compute.Errorf(compute.Unavailable, "the host of server %s does not answer", id)
	ask("serial", "serial", at("2.6")).fails(503, "serviceUnavailable", "the host of server "+id+" does not answer")
	require.Equal(t, 4, c.count(`SELECT count(*) FROM console_tokens`), "what is refused leaves no token")
}

// Without a proxy there are no consoles, as where Nova's are disabled.
func TestConsolesWithoutAProxy(t *testing.T) {
	t.Parallel()
	c := setupCloud(t, func(config *api.Config) { config.Consoles.URL = "" })
	c.consoles.has = []compute.ConsoleType{compute.ConsoleSerial}
	id := c.active()
	c.do(t, member, "POST", "/servers/"+id+"/remote-consoles", `{"remote_console":{"protocol":"serial","type":"serial"}}`, at("2.6")).
		fails(400, "badRequest", "Unavailable console type serial.")
	_, err := api.New(api.Config{Pool: c.pool, IdentityURI: "x", Consoles: api.Consoles{URL: "consoles.example:6080"}})
	require.ErrorContains(t, err, `console_proxy (public_url "consoles.example:6080"): it is no http or https address`)
	_, err = api.New(api.Config{Pool: c.pool, IdentityURI: "x", Consoles: api.Consoles{TTL: time.Millisecond}})
	require.ErrorContains(t, err, "token_ttl is a second at least")
}

// An administrator is told what a token opens, without using it.
func TestConsoleTokens(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	c.consoles.has = []compute.ConsoleType{compute.ConsoleSerial}
	c.exec(`UPDATE hosts SET agent_url = 'https://10.0.0.7:8778' WHERE id = $1`, c.host)
	id := c.active()
	token := func() string {
		return tokenOf(t, c.do(t, member, "POST", "/servers/"+id+"/remote-consoles", `{"remote_console":{"protocol":"serial","type":"serial"}}`, at("2.6")).
			ok(200).get("remote_console", "url"))
	}
	path := "/os-console-auth-tokens/"
	first := token()
	for range 2 {
		c.do(t, admin, "GET", path+first, "", at("2.31")).is(200,
			`{"console":{"instance_uuid":"`+id+`","host":"10.0.0.7","port":8778,"internal_access_path":"/consoles/`+id+`/serial"}}`)
	}
	c.do(t, admin, "GET", path+first, "", at("2.30")).ok(400)
	c.do(t, member, "GET", path+first, "", at("2.31")).ok(403)
	require.NotContains(t, c.log.String(), first)
	require.Contains(t, c.log.String(), path+"…")
	c.do(t, admin, "GET", path+"another", "", at("2.31")).fails(404, "itemNotFound", "Token not found")
	c.exec(`UPDATE console_tokens SET expires_at = now()`)
	c.do(t, admin, "GET", path+first, "", at("2.31")).fails(404, "itemNotFound", "Token not found")
	second := token()
	c.exec(`UPDATE servers SET host_id = NULL WHERE id = $1`, id)
	c.do(t, admin, "GET", path+second, "", at("2.31")).fails(404, "itemNotFound", "Token not found")
}
