package volume_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/api"
	"strongroom/api/origin"
)

func TestDoor(t *testing.T) {
	t.Parallel()
	b := setup(t, onDevcloud(t, ""))
	own := "/v3/" + b.cloud.project(t, member)
	const versions = `{"versions":[{"id":"v3.0","status":"CURRENT","version":"3.71","min_version":"3.0","updated":"2023-08-31T00:00:00Z",
		"links":[{"rel":"describedby","type":"text/html","href":"https://docs.openstack.org/"},{"rel":"self","href":"http://cloud.example:8774/v3/"}],
		"media-types":[{"base":"application/json","type":"application/vnd.openstack.volume+json;version=3"}]}]}`
	below := strings.Replace(versions, ":8774/v3/", ":8774/volume/v3/", 1)
	for _, path := range []string{"/v3", "/v3/"} {
		b.raw(nobody, "GET", path, "").is(200, versions)
	}
	for _, path := range []string{"/volume/v3", "/volume/v3/"} {
		b.raw(nobody, "GET", path, "").is(200, below)
	}
	for _, path := range []string{"/volume", "/volume/"} {
		b.raw(nobody, "GET", path, "").is(300, below)
	}
	for _, path := range []string{own, own + "/"} {
		b.raw(member, "GET", path, "").is(200, versions)
		b.raw(nobody, "GET", path, "").ok(401)
	}
	behind, err := origin.New("https://volumes.example/", nil, "")
	require.NoError(t, err)
	prefixed := setup(t, b.cloud, func(c *api.Config) { c.Origin = behind })
	require.Contains(t, prefixed.raw(nobody, "GET", "/v3", "").body, `"href":"https://volumes.example/v3/"`)
	require.Contains(t, prefixed.raw(nobody, "GET", "/volume", "").body, `"href":"https://volumes.example/volume/v3/"`)

	b.create("one", "")
	for _, path := range []string{"/v3/types", own + "/types", "/volume/v3/types", "/volume" + own + "/types"} {
		require.Equal(t, []string{"one"}, b.raw(member, "GET", path, "").names(), path)
	}
	require.Equal(t, "http://cloud.example:8774/v3/types?limit=1&marker="+b.do(member, "GET", "/types", "").get("one"), links(b.raw(member, "GET", "/v3/types?limit=1", ""))[0])
	require.Equal(t, "http://cloud.example:8774/volume"+own+"/types?limit=1&marker="+b.do(member, "GET", "/types", "").get("one"), links(b.raw(member, "GET", "/volume"+own+"/types?limit=1", ""))[0])
	b.raw(member, "GET", "/v3/"+b.cloud.project(t, stranger)+"/types", "").fails(400, "badRequest", "Malformed request url")
	for _, path := range []string{"/v3/types/", own + "/types/", "/v3/volumes", own + "/volumes", own + "/nothing/at/all", "/v3/" + b.cloud.project(t, stranger)} {
		b.raw(member, "GET", path, "").fails(404, "itemNotFound", "The resource could not be found.")
	}
	b.do(member, "PATCH", "/types", "").fails(405, "badMethod", "The method specified is not allowed for this resource.")
	b.raw(nobody, "GET", "/v3x", "").ok(300)

	for _, c := range []struct {
		caller, tell, want string
		code               int
	}{
		{member, "", "volume 3.0", 200},
		{member, "volume 3.52", "volume 3.52", 200},
		{member, "volume latest", "volume 3.71", 200},
		{member, "compute 2.97", "volume 3.0", 200},
		{member, "compute 2.97, volume 3.70, strongroom 1.0", "volume 3.70, strongroom 1.0", 200},
		{nobody, "volume 3.52", "volume 3.52", 401},
		{nobody, "volume 3.99", "volume 3.0", 401},
		{member, "volume 3.72", "volume 3.0", 406},
		{member, "volume 3", "volume 3.0", 400},
		{member, "volume 3.1, strongroom 9.9", "volume 3.0", 406},
	} {
		a := b.raw(c.caller, "GET", "/v3/types", "", "OpenStack-API-Version", c.tell).ok(c.code)
		require.Equal(t, c.want, a.header.Get("OpenStack-API-Version"))
		require.Equal(t, "OpenStack-API-Version", a.header.Get("Vary"))
		require.Regexp(t, `^req-[0-9a-f-]{36}$`, a.header.Get("X-Openstack-Request-Id"))
		require.Equal(t, a.header.Get("X-Openstack-Request-Id"), a.header.Get("X-Compute-Request-Id"))
	}
	b.version(t, "3.72").do(member, "GET", "/types", "").
		fails(406, "computeFault", "Version 3.72 is not supported by the API. Minimum is 3.0 and maximum is 3.71.")
	b.version(t, "3.01").do(member, "GET", "/types", "").
		fails(400, "badRequest", "API Version String 3.01 is of invalid format. Must be of format MajorNum.MinorNum.")
	require.Contains(t, b.log.String(), `"version":"3.52"`)
	require.NotContains(t, b.log.String(), b.cloud.callers[member].Token())
}

// K33: an empty name names nothing.
func TestK33AnEmptyName(t *testing.T) {
	t.Parallel()
	b := setup(t, onDevcloud(t, ""))
	b.do(member, "GET", "/types", "").ok(200)
	for _, method := range []string{"POST", "DELETE", "PATCH"} {
		b.do(member, method, "/types/", "").fails(404, "itemNotFound", "The resource could not be found.")
	}
	b.raw(nobody, "GET", "/v3/types/", "").ok(401)
}

// TestFailure: a database that is away is told of without a word about it.
func TestFailure(t *testing.T) {
	t.Parallel()
	b := setup(t, onDevcloud(t, ""))
	b.pool.Close()
	b.do(member, "GET", "/types", "").
		fails(500, "computeFault", "The server has either erred or is incapable of performing the requested operation.")
	require.Contains(t, b.log.String(), `"level":"ERROR"`)

	gone, cancel := context.WithCancel(t.Context())
	cancel()
	require.Equal(t, 503, setup(t, b.cloud).during(gone, member, "GET", "/types").code)
}

// TestHostileValues sends what a schema lets through or a library may trip over.
func TestHostileValues(t *testing.T) {
	t.Parallel()
	b := setup(t, onDevcloud(t, "")).version(t, newest)
	id := b.create("one", "")
	for _, c := range []struct {
		method, path, body string
		code               int
	}{
		{"GET", "/types/%00", "", 404},
		{"GET", "/types/%ff", "", 404},
		{"GET", "/types/" + id + "/extra_specs/%00", "", 404},
		{"GET", "/types/" + id + "/extra_specs/%ff", "", 404},
		{"DELETE", "/types/" + id + "/extra_specs/%00", "", 400},
		{"DELETE", "/types/" + id + "/extra_specs/%ff", "", 400},
		{"GET", "/types/" + id + "/encryption/%00", "", 404},
		{"GET", "/types?marker=%00", "", 400},
		{"GET", "/types?name=%00", "", 400},
		{"GET", "/types?name=%ff", "", 400},
		{"GET", "/types?extra_specs=%7B%22a%22:%22%5Cu0000%22%7D", "", 400},
		{"GET", "/types?extra_specs=%7B%22%5Cu0000%22:%22a%22%7D", "", 400},
		{"GET", "/types?extra_specs=%7B%22a%22:%22%5Cud800%22%7D", "", 200},
		{"GET", "/types?extra_specs=%7B'a':'%ff'%7D", "", 200},
		{"GET", "/types?extra_specs=%7B'RESKEY:availability_zones':'%ff'%7D", "", 400},
		{"POST", "/types", `{"volume_type":{"name":"\ud800"}}`, 200}, // JSON's stand-in for it is stored
		{"POST", "/types/" + id + "/extra_specs", `{"extra_specs":{"a":1e999999999}}`, 400},
	} {
		require.Equal(t, c.code, b.do(admin, c.method, c.path, c.body).code, "%s %s %s", c.method, c.path, c.body)
	}
	require.NotContains(t, b.log.String(), `"panic"`)
}
