package volume_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/api"
)

// FuzzRequests sends any query string, body and part of a path to any route, as
// anybody, at the oldest and the newest version: no answer is a 500.
func FuzzRequests(f *testing.F) {
	b := setup(f, onDevcloud(f, ""), func(config *api.Config) { config.Logger = nil })
	fixed := b.create("__DEFAULT__", `{"multiattach":"<is> True","volume_backend_name":"x"}`) // cannot be deleted
	private := b.createPrivate("private")
	routes := []string{
		"GET /types", "GET /types/KEY", "GET /types/ID/KEY", "GET /types/ID/extra_specs/KEY", "GET /types/ID/encryption/KEY",
		"POST /types", "PUT /types/ID", "DELETE /types/KEY", "POST /types/ID/extra_specs", "PUT /types/ID/extra_specs/KEY",
		"DELETE /types/ID/extra_specs/KEY", "POST /types/PRIVATE/action", "GET /types/PRIVATE/os-volume-type-access",
		"POST /types/ID/encryption", "PUT /types/ID/encryption/KEY", "DELETE /types/ID/encryption/KEY", "GET /types/KEY/changes", "GET /KEY",
	}
	spoken := []string{"volume 3.0", "volume 3.71", "volume 3.71, strongroom 1.0"}
	seeds := []struct{ key, query, body string }{
		{"default", "", ""},
		{"multiattach", "is_public=None&limit=1&offset=1&sort=name:asc,id", `{"volume_type":{"name":"a","extra_specs":{"a":null}}}`},
		{"cacheable", "sort_key=name&sort_dir=desc&marker=" + fixed, `{"extra_specs":{"cacheable":"<is> True"}}`},
		{"a", `extra_specs={'multiattach':'<is>%20True'}`, `{"a":"b"}`},
		{"%00", `extra_specs={"volume_backend_name":"x"}&name=a&id=` + fixed, `{"addProjectAccess":{"project":"` + fixed + `"}}`},
		{"\xff", `extra_specs={}`, `{"encryption":{"provider":"luks","control_location":"front-end","key_size":"256"}}`},
		{"provider", `extra_specs={'a':'\x00'}`, `{"encryption":{"cipher":null,"key_size":1e3}}`},
		{fixed, "extra_specs=[1]&limit=99999999999999999999", `{"volume_type":{"name":"b","id":"` + private + `"}}`},
		{"a/b", "%zz", `[[[[`},
	}
	for i := range uint8(len(routes)) {
		for j, seed := range seeds {
			f.Add(i, uint8(j), seed.key, seed.query, seed.body)
		}
	}
	f.Fuzz(func(t *testing.T, route, how uint8, key, query, body string) {
		method, path, _ := strings.Cut(routes[int(route)%len(routes)], " ")
		caller := everyone[int(how)%len(everyone)]
		r, err := http.NewRequestWithContext(t.Context(), method, "http://cloud.example:8774/v3", strings.NewReader(body))
		require.NoError(t, err)
		r.URL.Path += strings.NewReplacer("KEY", key, "ID", fixed, "PRIVATE", private).Replace(path)
		r.URL.RawQuery = query
		r.Header.Set("X-Auth-Token", b.cloud.callers[caller].Token())
		r.Header.Set("OpenStack-API-Version", spoken[int(how/3)%len(spoken)])
		w := httptest.NewRecorder()
		b.api.ServeHTTP(w, r)
		require.Less(t, w.Code, 500, "INVARIANT: %s %s?%s %s: %s", method, r.URL.Path, query, body, w.Body)
	})
}
