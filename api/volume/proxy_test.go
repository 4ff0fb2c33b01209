package volume_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/api"
)

// before gives the API of a strongroom before a Cinder, which a handler is.
func before(t *testing.T, c cloud, cinder http.Handler) (b *bundle, stop func()) {
	t.Helper()
	server := httptest.NewServer(cinder)
	t.Cleanup(server.Close)
	endpoint, err := url.Parse(server.URL + "/v3/")
	require.NoError(t, err)
	return setup(t, c, func(config *api.Config) { config.Cinder = endpoint }), server.Close
}

// VT-01, VT-08, VT-11: before a Cinder that shows every extra spec to everybody, strongroom shows the visible ones to those who are no
// administrators, and answers no question about the others. (The Cinder is a strongroom with such a policy; test:ops has Debian's.)
func TestVT01TypesOfACinder(t *testing.T) {
	t.Parallel()
	c := onDevcloud(t, "")
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	require.NoError(t, os.WriteFile(policy, []byte(`"volume_extension:types_extra_specs:read_sensitive": ""`), 0o600))
	cinder := setup(t, c, func(config *api.Config) { config.PolicyFile = policy })
	b, stop := before(t, c, cinder.api)
	b.create("another", "") // the last one cannot be deleted
	id := b.create("fast", `{"multiattach": "<is> True", "volume_backend_name": "secret-pool"}`)
	const hidden, seen = "secret-pool", `{"multiattach":"<is> True"}`

	for _, path := range []string{"/types", "/types/" + id, "/types/" + id + "/extra_specs"} {
		require.Contains(t, cinder.do(member, "GET", path, "").ok(200).body, hidden, "the Cinder tells")
		require.Contains(t, b.do(admin, "GET", path, "").ok(200).body, hidden)
		for _, caller := range []string{member, reader, stranger} {
			got := b.do(caller, "GET", path, "").ok(200).body
			require.NotContains(t, got, hidden, path)
			require.Contains(t, got, seen, path)
			b.do(caller, "GET", path+"/", "").ok(404) // K33
		}
	}
	specs := "/types/" + id + "/extra_specs/"
	b.do(admin, "GET", specs+"volume_backend_name", "").is(200, `{"volume_backend_name": "secret-pool"}`)
	b.do(member, "GET", specs+"multiattach", "").is(200, seen)
	for _, key := range []string{"volume_backend_name", "missing"} { // are alike
		b.do(member, "GET", specs+key, "").fails(404, "itemNotFound", "Volume Type "+id+" has no extra specs with key "+key+".")
	}
	b.do(member, "GET", specs+"a/b", "").ok(404)

	asking := func(filter string) string { return "/types?extra_specs=" + url.QueryEscape(filter) }
	require.Contains(t, b.do(admin, "GET", asking(`{'volume_backend_name': 'secret-pool'}`), "").ok(200).body, id)
	require.Contains(t, b.do(member, "GET", asking(`{'multiattach': '<is> True'}`), "", "OpenStack-API-Version", "volume 3.52").ok(200).body, id)
	for _, filter := range []string{`{'volume_backend_name': 'secret-pool'}`, `{'volume_backend_name': 'other'}`, `{'multiattach': '<is> True', 'volume_backend_name': 'secret-pool'}`} {
		b.do(member, "GET", asking(filter), "", "OpenStack-API-Version", "volume 3.52").is(200, `{"volume_types": []}`)
	}
	for _, filter := range []string{"{", "[]", `{'volume_backend_name': 'secret-pool'`} {
		b.do(member, "GET", asking(filter), "", "OpenStack-API-Version", "volume 3.52").ok(400)
	}
	for _, guess := range []string{"secret-pool", "other"} { // there is no filter yet
		require.Contains(t, b.do(member, "GET", asking(`{'volume_backend_name': '`+guess+`'}`), "", "OpenStack-API-Version", "volume 3.51").ok(200).body, id)
	}
	b.do(member, "GET", "/types?a=b;extra_specs={'volume_backend_name':'secret-pool'}", "").ok(400)

	// All else is the Cinder's to answer.
	b.do(member, "DELETE", "/types/"+id, "").denied("type_delete")
	require.Contains(t, b.raw(nobody, "GET", "/v3", "").ok(200).body, "http://cloud.example:8774/v3", "links are as the caller knows them")
	b.raw(nobody, "GET", "/v3/"+c.project(t, member)+"/types", "").ok(401)
	b.do(admin, "DELETE", "/types/"+id, "").ok(202)
	require.NotContains(t, cinder.do(admin, "GET", "/types", "").ok(200).body, id)
	stop()
	b.do(member, "GET", "/types", "").fails(503, "serviceUnavailable", "The block storage service cannot be reached. Try again later.")
}

// What a Cinder is sent, and what of its answers reaches a caller who may not read every extra spec, however the path is written.
func TestRequestsToACinder(t *testing.T) {
	t.Parallel()
	c := onDevcloud(t, "")
	var (
		lock   sync.Mutex
		got    *http.Request
		body   string
		answer = `{"volume_type": {"id": "x", "size": 12345678901234567890, "extra_specs": {"volume_backend_name": "secret-pool", "multiattach": "1"}}}`
	)
	b, _ := before(t, c, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lock.Lock()
		defer lock.Unlock()
		text, _ := io.ReadAll(r.Body)
		got, body = r, string(text)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer)
	}))
	send := func(caller, method, path, body string) (int, string) {
		r := httptest.NewRequestWithContext(t.Context(), method, "http://cloud.example:8774"+path, strings.NewReader(body))
		r.Header.Set("X-Auth-Token", c.callers[caller].Token())
		r.Header.Set("Accept-Encoding", "gzip")
		r.Header.Set("X-Forwarded-For", "203.0.113.9") // of nobody who is trusted
		r.Header.Set("X-Forwarded-Prefix", "/mine")
		r.Header.Set("X-Forwarded-Port", "1")
		w := httptest.NewRecorder()
		b.api.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	project := "/v3/" + c.project(t, member)
	for _, path := range []string{"/types/x", "/types.json", "/types/x.json", "/t%79pes", "//types", "/group_types", "/types?is_public=None"} {
		for _, root := range []string{"", "/volume"} {
			code, text := send(member, "GET", root+project+path, "")
			require.Equal(t, 200, code, path)
			require.JSONEq(t, `{"volume_type": {"id": "x", "size": 12345678901234567890, "extra_specs": {"multiattach": "1"}}}`, text, path)
			_, text = send(admin, "GET", root+project+path, "")
			require.Equal(t, answer, text, path)
		}
	}
	for _, path := range []string{"/types/x/extra_specs.json", "/types/x/extra_specs/a/b", "/types/x/extra%5Fspecs/a/b"} {
		code, text := send(member, "GET", project+path, "")
		require.Equal(t, 404, code, path)
		require.NotContains(t, text, "secret-pool")
	}

	code, text := send(member, "POST", "/volume"+project+"/volumes?a=b%20c", `{"volume": {}}`)
	require.Equal(t, 200, code)
	require.Equal(t, answer, text, "it passes as it is")
	require.JSONEq(t, `{"volume": {}}`, body)
	require.Equal(t, project+"/volumes?a=b%20c", got.RequestURI)
	require.Equal(t, c.callers[member].Token(), got.Header.Get("X-Auth-Token"))
	require.Equal(t, "cloud.example:8774", got.Host)
	require.NotContains(t, got.Header.Get("X-Forwarded-For"), "203.0.113.9")
	require.Empty(t, got.Header.Get("X-Forwarded-Prefix"), "K23")
	require.Empty(t, got.Header.Get("X-Forwarded-Port"))
	_, _ = send(member, "GET", "/volume", "")
	require.Equal(t, "/", got.RequestURI, "the list of versions")
	_, _ = send(member, "GET", "/volume/v3", "")
	require.Equal(t, "/v3/", got.RequestURI)

	for _, broken := range []string{"", "[]", `{"volume_types": `, "<html>"} {
		answer = broken
		code, text = send(member, "GET", project+"/types", "")
		require.Equal(t, 503, code, broken)
		require.Contains(t, text, "cannot be reached")
	}
	require.NotContains(t, b.log.String(), c.callers[member].Token())
}

// S8: what is asked for below the Cinder's endpoint stays below it, in whatever form a path says otherwise.
func TestS8APathThatClimbsReachesNothing(t *testing.T) {
	t.Parallel()
	c := onDevcloud(t, "")
	var asked atomic.Int32
	b, _ := before(t, c, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	project := c.project(t, member)
	for _, path := range []string{
		"/v3/" + project + "/../../../admin", "/v3/./x", "/v3/" + project + "/..", "/v3/%2e%2E/x", "/v3/x/..%2f..%2Fadmin", "/volume/v3/.%2e/x", "/v3/%2E",
	} {
		for _, method := range []string{"GET", "POST", "DELETE"} {
			r := httptest.NewRequestWithContext(t.Context(), method, "http://cloud.example:8774"+path, http.NoBody)
			r.Header.Set("X-Auth-Token", c.callers[admin].Token())
			w := httptest.NewRecorder()
			b.api.ServeHTTP(w, r)
			require.Equal(t, 400, w.Code, "%s %s: %s", method, path, w.Body)
		}
	}
	require.Zero(t, asked.Load())
}

// An endpoint that is none is refused when the API begins.
func TestTheEndpointOfACinder(t *testing.T) {
	t.Parallel()
	c := onDevcloud(t, "")
	for _, text := range []string{"10.0.0.20", "ftp://h/v3", "http://h", "http://h/v2", "http://user:secret@h/v3", "http://h/v3?a=b"} {
		u, err := url.Parse(text)
		require.NoError(t, err)
		_, err = api.New(api.Config{Identity: c.identity, Cinder: u})
		require.ErrorContains(t, err, "it must be like http://", text)
		require.NotContains(t, err.Error(), "secret")
	}
}
