package volume_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/api/answertest"
	"strongroom/api/microversion"
	"strongroom/api/volume"
)

// Every route has a schema, and every schema a route.
func TestP25EveryRouteHasASchemaOfItsAnswers(t *testing.T) {
	t.Parallel()
	routes := map[string]bool{}
	for _, r := range volume.Routes() {
		routes[r.Method+" "+r.Path] = true
		require.Contains(t, answers, r.Method+" "+r.Path, "say in answers what it answers")
	}
	for name := range answers {
		require.True(t, routes[name], "%s: there is no such route", name)
	}
}

// A key that is missing or superfluous is found.
func TestP25OneKeyMoreOrLessIsFound(t *testing.T) {
	t.Parallel()
	const id = `"id":"11111111-2222-4333-8444-555555555555","name":"n","description":null,"is_public":true,"extra_specs":{}`
	of := func(name, keys string) error {
		return answers[name](admin).Check([]byte(`{"volume_type":{` + keys + `}}`))
	}
	const access, qos = `,"os-volume-type-access:is_public":true`, `,"qos_specs_id":null`
	require.NoError(t, of("GET /types/:id", id+access+qos))
	require.Error(t, of("GET /types/:id", id+access))
	require.Error(t, of("GET /types/:id", id+access+qos+`,"more":1`))
	require.NoError(t, of("POST /types", id+access))
	require.Error(t, of("POST /types", id+access+qos), "P1")
	require.NoError(t, of("PUT /types/:id", id))
	require.Error(t, of("PUT /types/:id", id+access), "P2")
}

// routeOf finds the route of a request below the endpoint: the one with the fewest parameters.
func routeOf(method, path string) (found volume.Routed, ok bool) {
	segments := strings.Split(strings.Trim(path, "/"), "/")
	for _, rest := range [][]string{segments, segments[1:]} { // without and with a project in the path
		for _, r := range volume.Routes() {
			parts := strings.Split(strings.Trim(r.Path, "/"), "/")
			fits := r.Method == method && len(parts) == len(rest)
			for i := 0; fits && i < len(parts); i++ {
				fits = parts[i] == rest[i] || strings.HasPrefix(parts[i], ":")
			}
			if fits && (!ok || strings.Count(r.Path, ":") < strings.Count(found.Path, ":")) {
				found, ok = r, true
			}
		}
		if ok {
			return found, ok
		}
	}
	return found, ok
}

// check compares every answer that tests get with what the API says of it: headers, faults,
// and the schema of the route. Where the policy is not the default one, keys are not looked at.
func (b *bundle) check(caller string, r *http.Request, w *httptest.ResponseRecorder) error {
	path := strings.TrimPrefix(r.URL.EscapedPath(), "/volume")
	below, found := strings.CutPrefix(path, "/v3")
	if path != "" && (!found || below != "" && below[0] != '/') {
		return nil // the compute API's
	}
	spoken, err := microversion.Volume.Asked(r.Header)
	extended, own, extendedErr := microversion.Extended(r.Header)
	if err != nil || extendedErr != nil {
		spoken, extended = microversion.Volume.Min, false
	}
	said := "volume " + microversion.Volume.Text(spoken)
	if extended {
		said += ", strongroom " + microversion.Extensions.Text(own)
	}
	if err := answertest.Headers(w.Header(), map[string]string{"OpenStack-API-Version": said, "Vary": "OpenStack-API-Version"}); err != nil {
		return err
	}
	body := w.Body.Bytes()
	if w.Code >= http.StatusBadRequest {
		if !strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") {
			return fmt.Errorf("content type %q", w.Header().Get("Content-Type"))
		}
		return answertest.Fault(w.Code, w.Header(), body)
	}
	if strings.Count(strings.Trim(below, "/"), "/") == 0 && !strings.HasPrefix(below, "/types") && !strings.HasPrefix(below, "/limits") {
		return versionsAnswer.Check(body) // of the endpoint, with and without a project
	}
	route, ok := routeOf(r.Method, below)
	if !ok {
		return fmt.Errorf("%s %s is no route, and was answered %d", r.Method, path, w.Code)
	}
	status := route.Status
	if status == 0 {
		status = http.StatusOK
	}
	if w.Code != status {
		return fmt.Errorf("%s %s was answered %d, and should be %d", r.Method, route.Path, w.Code, status)
	}
	schema, ok := answers[route.Method+" "+route.Path]
	if !ok {
		return fmt.Errorf("%s %s has no schema", r.Method, route.Path)
	}
	if b.policy {
		return nil
	}
	return schema(caller).Check(body)
}
