package api

import (
	"crypto/rand"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"strongroom/api/fault"
	"strongroom/api/microversion"
	"strongroom/api/policy"
	"strongroom/api/validation"
	"strongroom/compute"
	"strongroom/schema"
)

// Consoles says where the console proxy is.
type Consoles struct {
	URL string        // http or https, as clients reach it; "": there is none
	TTL time.Duration // that a token is good for; default 10 minutes
}

const (
	ruleConsoles      = "os_compute_api:os-remote-consoles"
	ruleConsoleTokens = "os_compute_api:os-console-auth-tokens"
)

// consoleTokens is below which what tokens open is told.
const consoleTokens = "/os-console-auth-tokens/"

// The versions that changed consoles.
const (
	consolesFormed microversion.Version = 6  // one route for all
	consolesMKS    microversion.Version = 8  // VMware's
	consolesTold   microversion.Version = 31 // what the token of any console opens
)

// consoleTypes are the types of consoles that Nova knows, by the protocol that they speak.
var consoleTypes = map[string][]string{
	"vnc": {string(compute.ConsoleNoVNC), "xvpvnc"}, "spice": {"spice-html5"}, "rdp": {"rdp-html5"}, "serial": {string(compute.ConsoleSerial)}, "mks": {"webmks"},
}

var consoleBody = validation.Since(func(v microversion.Version) validation.Schema {
	protocols, types := []string{"vnc", "spice", "rdp", "serial"}, []string{"novnc", "xvpvnc", "rdp-html5", "spice-html5", "serial"}
	if v >= consolesMKS {
		protocols, types = append(protocols, "mks"), append(types, "webmks")
	}
	return validation.Object([]string{"remote_console"}, validation.Properties{
		"remote_console": validation.Object([]string{"protocol", "type"}, validation.Properties{
			"protocol": validation.Enum(protocols...), "type": validation.Enum(types...),
		}),
	})
}, consolesFormed, consolesMKS)

func (a *API) serverConsoles() Resource {
	routes := []Route{
		{Method: http.MethodPost, Path: "/servers/:id/remote-consoles", Min: consolesFormed, Body: consoleBody, Handle: a.createConsole},
		{Method: http.MethodGet, Path: consoleTokens + ":token", Rule: ruleConsoleTokens, Handle: a.showConsoleToken},
	}
	for _, old := range []struct{ key, protocol string }{
		{"os-getVNCConsole", "vnc"}, {"os-getSPICEConsole", "spice"}, {"os-getRDPConsole", "rdp"}, {"os-getSerialConsole", "serial"},
	} {
		body := validation.Always(validation.Object([]string{old.key}, validation.Properties{
			old.key: validation.Object([]string{"type"}, validation.Properties{"type": validation.Enum(consoleTypes[old.protocol]...)}),
		}))
		route := actionRoute(old.key, body, func(r *Request) (any, error) {
			var body map[string]struct{ Type string }
			if err := r.Decode(&body); err != nil {
				return nil, err
			}
			of := body[old.key].Type
			link, err := a.console(r, old.protocol, of)
			return map[string]any{"console": map[string]any{"type": of, "url": link}}, err
		})
		route.Status, route.Max = http.StatusOK, consolesFormed-1
		if old.protocol == "spice" || old.protocol == "rdp" {
			route.Refused = "machines have a serial line and a screen for VNC"
		}
		routes = append(routes, route)
	}
	return Resource{Rules: policy.Rules{ruleConsoles: policy.ProjectMemberOrAdmin, ruleConsoleTokens: policy.Admin}, Routes: routes}
}

func (a *API) createConsole(r *Request) (any, error) {
	var body struct {
		Console struct{ Protocol, Type string } `json:"remote_console"`
	}
	if err := r.Decode(&body); err != nil {
		return nil, err
	}
	link, err := a.console(r, body.Console.Protocol, body.Console.Type)
	return map[string]any{"remote_console": map[string]any{"protocol": body.Console.Protocol, "type": body.Console.Type, "url": link}}, err
}

// console gives the address at which a console of a server opens, once. Its token is bound to the host on which the server is,
// and kept as a hash alone.
func (a *API) console(r *Request, protocol, name string) (string, error) {
	row, err := a.findServer(r, ruleConsoles)
	if err != nil {
		return "", err
	}
	if !slices.Contains(consoleTypes[protocol], name) {
		return "", fault.BadRequest("Invalid console type %s", name)
	}
	s, of := row.Server, compute.ConsoleType(name)
	unavailable := fault.BadRequest("Unavailable console type %s.", name)
	if a.config.Consoles.URL == "" || of != compute.ConsoleSerial && of != compute.ConsoleNoVNC {
		return "", unavailable
	}
	if s.HostID == nil || deref(row.HostAgent) == "" {
		return "", fault.Conflict("Instance %s is not ready", s.ID)
	}
	has, err := a.config.Hosts.Consoles(r.Context(), *s.HostID, *row.HostAgent, s.ID)
	switch {
	case compute.Is(err, compute.NotFound):
		return "", fault.Conflict("Instance %s is not ready", s.ID)
	case err != nil:
		return "", err
	case !slices.Contains(has, of):
		return "", unavailable
	}
	token := rand.Text()
	err = a.db.InsertConsoleToken(r.Context(), schema.InsertConsoleTokenParams{
		Hash: compute.ConsoleTokenHash(token), ServerID: s.ID, HostID: *s.HostID, Type: of, Seconds: int32(a.config.Consoles.TTL.Seconds()),
	})
	if err != nil {
		return "", err
	}
	return consoleURL(a.config.Consoles.URL, of, token), nil
}

// consoleURL is where a console opens: a WebSocket for a serial one, as Nova's, and noVNC's page for a screen.
func consoleURL(proxy string, of compute.ConsoleType, token string) string {
	proxy = strings.TrimSuffix(proxy, "/")
	if of == compute.ConsoleSerial {
		return "ws" + strings.TrimPrefix(proxy, "http") + "/?token=" + token
	}
	base, _ := url.Parse(proxy) // it was looked at
	return proxy + "/novnc/vnc_lite.html?path=" + url.QueryEscape(strings.TrimPrefix(base.Path+"/", "/")+"?token="+token)
}

// showConsoleToken tells what a token opens that was not used yet. It does not use it.
func (a *API) showConsoleToken(r *Request) (any, error) {
	if r.Version < consolesTold { // then it was for Hyper-V's, of which Nova knows no more
		return nil, fault.BadRequest("The server could not comply with the request since it is either malformed or otherwise incorrect.")
	}
	found, err := a.db.FindConsoleToken(r.Context(), compute.ConsoleTokenHash(r.Param("token")))
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, fault.NotFound("Token not found")
	case err != nil:
		return nil, err
	}
	agent, err := url.Parse(found.AgentURL)
	if err != nil {
		return nil, err
	}
	port, _ := strconv.Atoi(agent.Port())
	return map[string]any{"console": map[string]any{
		"instance_uuid": found.ServerID, "host": agent.Hostname(), "port": port,
		"internal_access_path": "/consoles/" + found.ServerID.String() + "/" + string(found.Type),
	}}, nil
}

// check fails where the proxy's address is none, or tokens would not be good at all.
func (c Consoles) check() error {
	u, err := url.Parse(c.URL)
	if err == nil && c.URL != "" && (u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "") {
		err = errors.New("it is no http or https address")
	}
	if err == nil && c.TTL != 0 && c.TTL < time.Second {
		err = errors.New("token_ttl is a second at least")
	}
	return err
}
