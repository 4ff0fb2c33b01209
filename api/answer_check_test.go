package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/api"
	"strongroom/api/answertest"
	"strongroom/api/microversion"
)

// question is what of a request decides which keys its answer has.
type question struct {
	microversion.Negotiated
	as    who
	query map[string][]string
}

// v reports whether a version, or a later one, is spoken.
func (a question) v(since microversion.Version) bool { return a.Compute >= since }

func (a question) admin() bool { return a.as == admin || a.as == powerful || a.as == operator }

// specs reports whether the caller may list extra specs.
func (a question) specs() bool { return a.as != powerless && a.as != unscoped }

// answers have the schema of each route's answers, derived from Nova's.
func answers(name string) (func(question) answertest.Schema, bool) {
	for _, part := range []map[string]func(question) answertest.Schema{serverAnswers, actionAnswers, otherAnswers} {
		if s, ok := part[name]; ok {
			return s, true
		}
	}
	return nil, false
}

// Every route has a schema, and every schema a route.
func TestP25EveryRouteHasASchemaOfItsAnswers(t *testing.T) {
	t.Parallel()
	routes := map[string]bool{}
	for _, r := range setup(t).api.Routes() {
		routes[routeName(r)] = true
		_, ok := answers(routeName(r))
		require.True(t, ok || isElsewhere(r), "%s: say in serverAnswers, actionAnswers or otherAnswers what it answers", routeName(r))
	}
	for _, part := range []map[string]func(question) answertest.Schema{serverAnswers, actionAnswers, otherAnswers} {
		for name := range part {
			require.True(t, routes[name], "%s: there is no such route", name)
		}
	}
}

// A key that is missing or superfluous is found, at any depth.
func TestP25OneKeyMoreOrLessIsFound(t *testing.T) {
	t.Parallel()
	for version := microversion.Min; version <= microversion.Max; version++ {
		shape := serverAnswers["GET /servers/:id"](question{Negotiated: microversion.Negotiated{Compute: version}, as: admin})
		c := setupForShape
		body := c(t, version)
		require.NoError(t, shape.Check(body))
		var good map[string]map[string]any
		require.NoError(t, json.Unmarshal(body, &good))
		for _, at := range []map[string]any{good["server"], good["server"]["flavor"].(map[string]any), good["server"]["image"].(map[string]any)} {
			at["more"] = 1
			require.Error(t, shape.Check(marshal(t, good)))
			delete(at, "more")
			for key, value := range at {
				delete(at, key)
				require.Error(t, shape.Check(marshal(t, good)), "%s without %s", version, key)
				at[key] = value
			}
		}
	}
}

func marshal(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return text
}

var (
	shapeOnce   sync.Once
	shapeBodies map[microversion.Version][]byte
)

// setupForShape gives a server as an administrator sees it at a version.
func setupForShape(t *testing.T, version microversion.Version) []byte {
	t.Helper()
	shapeOnce.Do(func() {
		shapeBodies = map[microversion.Version][]byte{}
		c := setupCloud(t)
		id := c.active()
		for v := microversion.Min; v <= microversion.Max; v++ {
			shapeBodies[v] = []byte(c.do(t, admin, "GET", "/servers/"+id, "", at(v.String())).ok(200).body)
		}
	})
	return shapeBodies[version]
}

var (
	routesOnce sync.Once
	routesAll  []api.Route
)

// routeOf finds the route of a request below an endpoint: the one with the fewest parameters.
func (b *bundle) routeOf(method, path, body string, version microversion.Version) (api.Route, bool) {
	routesOnce.Do(func() { routesAll = b.api.Routes() })
	var object map[string]json.RawMessage
	_ = json.Unmarshal([]byte(body), &object) // else it has no action
	segments := strings.Split(strings.Trim(path, "/"), "/")
	for _, rest := range [][]string{segments, segments[1:]} { // without and with a project in the path
		best, found := api.Route{}, false
		for _, r := range routesAll {
			_, named := object[r.Action]
			if r.Method != method || version < r.Min || r.Max != 0 && version > r.Max || r.Action != "" && !named || !matches(r.Path, rest) {
				continue
			}
			if !found || strings.Count(r.Path, ":") < strings.Count(best.Path, ":") {
				best, found = r, true
			}
		}
		if found {
			return best, true
		}
	}
	return api.Route{}, false
}

func matches(pattern string, segments []string) bool {
	parts := strings.Split(strings.Trim(pattern, "/"), "/")
	if len(parts) != len(segments) {
		return false
	}
	for i, part := range parts {
		if part != segments[i] && !strings.HasPrefix(part, ":") {
			return false
		}
	}
	return true
}

// check compares every answer that tests get with what the API says of it: headers, faults, and
// the schema of the route at the version that is spoken.
func (b *bundle) check(as who, r *http.Request, body string, w *httptest.ResponseRecorder) error {
	path := r.URL.EscapedPath()
	root := "/v2.1"
	if legacy := path == "/v2" || strings.HasPrefix(path, "/v2/"); legacy {
		root = "/v2"
	}
	if path == "/v3" || strings.HasPrefix(path, "/v3/") || strings.HasPrefix(path, "/volume") {
		return nil // checked in api/volume
	}
	method := r.Method
	if method == http.MethodHead { // it is answered as GET, and net/http leaves the body out
		method = http.MethodGet
	}
	spoken, headers := microversion.Default, map[string]string{}
	if root == "/v2.1" {
		if said, err := microversion.Negotiate(r.Header); err == nil {
			spoken = said
		}
		text := "compute " + spoken.Compute.String()
		if spoken.Extended {
			text += ", strongroom " + microversion.Extensions.Text(spoken.Extensions)
		}
		headers = map[string]string{
			"OpenStack-API-Version": text, "X-OpenStack-Nova-API-Version": spoken.Compute.String(),
			"Vary": "OpenStack-API-Version, X-OpenStack-Nova-API-Version",
		}
	}
	if err := answertest.Headers(w.Header(), headers); err != nil {
		return err
	}
	got := w.Body.Bytes()
	if w.Code >= http.StatusBadRequest {
		if !strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") {
			return fmt.Errorf("content type %q", w.Header().Get("Content-Type"))
		}
		return answertest.Fault(w.Code, w.Header(), got)
	}
	below, found := strings.CutPrefix(path, root+"/")
	if !found || below == "" {
		return versionAnswer(path, w.Code).Check(got)
	}
	route, ok := b.routeOf(method, below, body, spoken.Compute)
	if !ok {
		return fmt.Errorf("%s %s is no route, and was answered %d", r.Method, path, w.Code)
	}
	schema, ok := answers(routeName(route))
	if !ok {
		return fmt.Errorf("%s has no schema", routeName(route))
	}
	status := route.Status
	if status == 0 {
		status = http.StatusOK
	}
	if routeName(route) == "PUT /servers/:id/tags/:tag" { // 201 and Location for a new one
		if status = http.StatusNoContent; w.Header().Get("Location") != "" {
			status = http.StatusCreated
		}
	}
	if routeName(route) == "POST /os-server-external-events" && w.Code == http.StatusMultiStatus {
		status = w.Code // not all of the events were taken
	}
	if spoken.Extended && strings.HasPrefix(route.Path, "/servers/:id/shares") && route.Method != http.MethodGet {
		status = http.StatusAccepted // as the document of shares has it
	}
	if w.Code != status {
		return fmt.Errorf("%s was answered %d, and should be %d", routeName(route), w.Code, status)
	}
	return schema(question{Negotiated: spoken, as: as, query: r.URL.Query()}).Check(got)
}
