package api_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/api"
	"strongroom/api/origin"
)

func TestDiscovery(t *testing.T) {
	t.Parallel()
	b := setup(t)
	v20 := `{"id":"v2.0","status":"DEPRECATED","version":"","min_version":"","updated":"2011-01-21T11:33:21Z",
		"links":[{"rel":"self","href":"http://cloud.example:8774/v2/"}`
	v21 := `{"id":"v2.1","status":"CURRENT","version":"2.97","min_version":"2.1","updated":"2013-07-23T11:33:21Z",
		"links":[{"rel":"self","href":"http://cloud.example:8774/v2.1/"}`
	described := `,{"rel":"describedby","type":"text/html","href":"http://docs.openstack.org/"}]`
	b.raw(t, nobody, "GET", "/", "").is(200, `{"versions":[`+v20+`]},`+v21+`]}]}`)
	for _, path := range []string{"/v2.1", "/v2.1/"} {
		b.raw(t, nobody, "GET", path, "").is(200, `{"version":`+v21+described+`,
			"media-types":[{"base":"application/json","type":"application/vnd.openstack.compute+json;version=2.1"}]}}`)
	}
	for _, path := range []string{"/v2", "/v2/"} {
		b.raw(t, nobody, "GET", path, "").is(200, `{"version":`+v20+described+`,
			"media-types":[{"base":"application/json","type":"application/vnd.openstack.compute+json;version=2"}]}}`)
	}
	b.raw(t, nobody, "GET", "/v4/servers", "").is(300, `{"choices":[
		{"id":"v2.0","status":"DEPRECATED","links":[{"rel":"self","href":"http://cloud.example:8774/v2/v4/servers"}],
		 "media-types":[{"base":"application/json","type":"application/vnd.openstack.compute+json;version=2"}]},
		{"id":"v2.1","status":"CURRENT","links":[{"rel":"self","href":"http://cloud.example:8774/v2.1/v4/servers"}],
		 "media-types":[{"base":"application/json","type":"application/vnd.openstack.compute+json;version=2.1"}]}]}`)

	behind, err := origin.New("https://compute.example/", nil, "")
	require.NoError(t, err)
	prefixed := setup(t, func(c *api.Config) { c.Origin = behind })
	require.Equal(t, "https://compute.example/v2.1/", prefixed.raw(t, nobody, "GET", "/v2.1", "").get("version", "links", 0, "href"))
}

func TestHeadersOfEveryAnswer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, c := range []struct {
		name string
		as   who
		path string
		code int
		tell string
		want string
	}{
		{"success", member, "/extensions", 200, "compute 2.60", "compute 2.60"},
		{"extensions", member, "/extensions", 200, "compute latest, strongroom 1.0", "compute 2.97, strongroom 1.0"},
		{"not there", member, "/nothing", 404, "compute 2.60", "compute 2.60"},
		{"not let in", nobody, "/extensions", 401, "compute 2.60", "compute 2.60"},
		{"refused version", member, "/extensions", 406, "compute 2.999", "compute 2.1"},
		{"malformed version", member, "/extensions", 400, "compute 2", "compute 2.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := b.do(t, c.as, "GET", c.path, "", header("OpenStack-API-Version", c.tell)).ok(c.code)
			require.Equal(t, c.want, a.header.Get("OpenStack-API-Version"))
			require.Equal(t, "OpenStack-API-Version, X-OpenStack-Nova-API-Version", a.header.Get("Vary"))
			require.Regexp(t, `^2\.\d+$`, a.header.Get("X-OpenStack-Nova-API-Version"))
			require.Regexp(t, `^req-[0-9a-f-]{36}$`, a.header.Get("x-openstack-request-id"))
			require.Equal(t, a.header.Get("x-openstack-request-id"), a.header.Get("x-compute-request-id"))
		})
	}
	first := b.do(t, member, "GET", "/extensions", "").header.Get("x-openstack-request-id")
	require.NotEqual(t, first, b.do(t, member, "GET", "/extensions", "").header.Get("x-openstack-request-id"))
	legacy := b.raw(t, member, "GET", "/v2/extensions", "", at("2.999")).ok(200)
	require.Empty(t, legacy.header.Get("OpenStack-API-Version"), "the /v2 endpoint knows no microversions")
}

func TestVersionFaults(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.do(t, member, "GET", "/extensions", "", at("2.999")).
		fails(406, "computeFault", "Version 2.999 is not supported by the API. Minimum is 2.1 and maximum is 2.97.")
	b.do(t, member, "GET", "/extensions", "", at("2.01")).
		fails(400, "badRequest", "API Version String 2.01 is of invalid format. Must be of format MajorNum.MinorNum.")
}

func TestPaths(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.do(t, member, "GET", "/"+project+"/extensions", "").ok(200)
	for _, path := range []string{"/extensions/", "/images/", "/servers//", "/" + project + "/images/", "/os-simple-tenant-usage/?start=2026-11-01T00:00:00", "/limits/"} {
		for _, method := range []string{"GET", "DELETE"} { // K33: an empty name is not the list
			b.do(t, member, method, path, "").fails(404, "itemNotFound", "The resource could not be found.")
		}
	}
	b.do(t, member, "GET", "/"+elsewhere+"/extensions", "").fails(400, "badRequest",
		"Malformed request URL: URL's project_id '"+elsewhere+"' doesn't match Context's project_id '"+project+"'")
	b.do(t, member, "GET", "/nothing", "").fails(404, "itemNotFound", "The resource could not be found.")
	b.do(t, member, "GET", "/"+project+"/nothing/at/all", "").fails(404, "itemNotFound", "The resource could not be found.")
	b.do(t, member, "DELETE", "/extensions", "").fails(405, "badMethod", "The method specified is not allowed for this resource.")
	b.do(t, member, "GET", "/extensions/os-keypairs", "").ok(200)
	b.do(t, member, "GET", "/extensions/os-consoles", "").ok(200)
	b.do(t, member, "GET", "/extensions/none", "").fails(404, "itemNotFound", "The resource could not be found.")
}

func TestToken(t *testing.T) {
	t.Parallel()
	b := setup(t)
	refused := `{"error":{"code":401,"title":"Unauthorized","message":"The request you have made requires authentication."}}`
	for _, as := range []who{nobody, "token-of-none"} {
		a := b.do(t, as, "GET", "/extensions", "").is(401, refused)
		require.Equal(t, `Keystone uri="http://identity.example:5000/v3"`, a.header.Get("WWW-Authenticate"))
	}
	b.do(t, nobody, "GET", "/nothing", "").is(401, refused)
	b.do(t, nobody, "GET", "/extensions", "", at("2.999")).is(401, refused)

	b.identity.set(true)
	b.do(t, member, "GET", "/extensions", "").is(503,
		`{"error":{"code":503,"title":"Service Unavailable","message":"The Keystone service is temporarily unavailable."}}`)
	b.identity.set(false)
	b.do(t, member, "GET", "/extensions", "").ok(200)

	before := b.identity.count()
	b.identity.set(true)
	b.do(t, member, "GET", "/extensions", "").ok(200)
	require.Equal(t, before, b.identity.count(), "a validated token is not asked for again")
	b.advance(5 * time.Minute)
	b.do(t, member, "GET", "/extensions", "").ok(503)
	require.Equal(t, before+1, b.identity.count(), "for five minutes at most")
}

func TestNoTokenInTheLog(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, as := range []who{admin, member, "token-of-none"} {
		b.do(t, as, "GET", "/extensions", "", header("X-OpenStack-Request-ID", "req-2d9e3f6e-3f6b-4f43-8f6c-0b2c4f8f5b11"))
	}
	b.identity.set(true)
	b.do(t, "token-of-another", "GET", "/extensions", "")
	log := b.log.String()
	require.Contains(t, log, `"path":"/v2.1/extensions"`)
	require.Contains(t, log, `"user_id":"user-member"`)
	require.Contains(t, log, `"global_request_id":"req-2d9e3f6e-3f6b-4f43-8f6c-0b2c4f8f5b11"`)
	require.Contains(t, log, "the identity service answered Bad Gateway")
	require.NotContains(t, log, "token-of-")
}

func TestPolicyFile(t *testing.T) {
	t.Parallel()
	file := func(t *testing.T, text string) string {
		path := filepath.Join(t.TempDir(), "policy.yaml")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	b := setup(t, func(c *api.Config) {
		c.PolicyFile = file(t, "os_compute_api:extensions: rule:boss\nboss: role:admin\n")
	})
	b.do(t, admin, "GET", "/extensions", "").ok(200)
	b.do(t, member, "GET", "/extensions", "").fails(403, "forbidden", "Policy doesn't allow os_compute_api:extensions to be performed.")

	json := setup(t, func(c *api.Config) { c.PolicyFile = file(t, `{"os_compute_api:extensions": "!"}`) })
	json.do(t, admin, "GET", "/extensions", "").ok(403)

	for _, text := range []string{"a: rule:b", "a: ((", "- a", "a: role:"} {
		_, err := api.New(api.Config{Pool: b.pool, IdentityURI: "x", PolicyFile: file(t, text)})
		require.Error(t, err, text)
	}
	_, err := api.New(api.Config{Pool: b.pool, IdentityURI: "x", PolicyFile: "/nonexistent"})
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestUnscopedToken(t *testing.T) {
	t.Parallel()
	setup(t).do(t, unscoped, "GET", "/extensions", "").ok(http.StatusForbidden)
}
