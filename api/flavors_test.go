package api_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/api"
)

func newFlavor(t *testing.T, b *bundle, id, more string) {
	t.Helper()
	b.do(t, admin, "POST", "/flavors", `{"flavor":{"id":"`+id+`","name":"name-of-`+id+`","ram":512,"vcpus":1,"disk":1`+more+`}}`).ok(200)
}

func TestFlavorKeysOfEachVersion(t *testing.T) {
	t.Parallel()
	b := setup(t)
	newFlavor(t, b, "1", "")
	v1 := []string{"id", "name", "ram", "disk", "swap", "vcpus", "OS-FLV-EXT-DATA:ephemeral", "OS-FLV-DISABLED:disabled",
		"os-flavor-access:is_public", "rxtx_factor", "links"}
	v55 := append([]string{"description"}, v1...)
	v61 := append([]string{"extra_specs"}, v55...)
	for version, keys := range map[string][]string{"2.1": v1, "2.54": v1, "2.55": v55, "2.60": v55, "2.61": v61, "2.97": v61} {
		require.ElementsMatch(t, keys, b.do(t, reader, "GET", "/flavors/1", "", at(version)).ok(200).keys("flavor"), version)
		require.ElementsMatch(t, keys, b.do(t, reader, "GET", "/flavors/detail", "", at(version)).ok(200).keys("flavors", 0), version)
	}
	require.ElementsMatch(t, []string{"id", "name", "links"}, b.do(t, reader, "GET", "/flavors", "", at("2.54")).keys("flavors", 0))
	require.ElementsMatch(t, []string{"id", "name", "links", "description"}, b.do(t, reader, "GET", "/flavors", "", at("2.55")).keys("flavors", 0))
	require.Contains(t, b.do(t, reader, "GET", "/flavors/1", "", at("2.74")).body, `"swap":""`)
	require.Contains(t, b.do(t, reader, "GET", "/flavors/1", "", at("2.75")).body, `"swap":0`)
}

func TestFlavorShow(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.do(t, admin, "POST", "/flavors", `{"flavor":{"name":"big","id":7,"ram":"4096","vcpus":"4","disk":20,"swap":512,
		"OS-FLV-EXT-DATA:ephemeral":"10","rxtx_factor":"2.5","os-flavor-access:is_public":"yes","description":"of \u0041"}}`, at("2.61")).
		is(200, `{"flavor":{"id":"7","name":"big","ram":4096,"vcpus":4,"disk":20,"swap":512,"OS-FLV-EXT-DATA:ephemeral":10,"rxtx_factor":2.5,
			"os-flavor-access:is_public":true,"OS-FLV-DISABLED:disabled":false,"description":"of A","extra_specs":{},
			"links":[{"rel":"self","href":"http://cloud.example:8774/v2.1/flavors/7"},{"rel":"bookmark","href":"http://cloud.example:8774/flavors/7"}]}}`)
	b.do(t, reader, "GET", "/"+project+"/flavors/7", "").is(200, `{"flavor":{"id":"7","name":"big","ram":4096,"vcpus":4,"disk":20,"swap":512,
		"OS-FLV-EXT-DATA:ephemeral":10,"rxtx_factor":2.5,"os-flavor-access:is_public":true,"OS-FLV-DISABLED:disabled":false,
		"links":[{"rel":"self","href":"http://cloud.example:8774/v2.1/`+project+`/flavors/7"},
			{"rel":"bookmark","href":"http://cloud.example:8774/`+project+`/flavors/7"}]}}`)
	require.Contains(t, b.do(t, reader, "GET", "/flavors/7", "").body, `"rxtx_factor":2.5`)
	newFlavor(t, b, "plain", "")
	require.Contains(t, b.do(t, reader, "GET", "/flavors/plain", "").body, `"rxtx_factor":1.0`)
	b.do(t, reader, "GET", "/flavors/8", "").fails(404, "itemNotFound", "Flavor 8 could not be found.")
}

func TestFlavorCreateRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	newFlavor(t, b, "1", "")
	valid := `{"flavor":{"name":"a","ram":1,"vcpus":1,"disk":0}}`
	const denied = "Policy doesn't allow os_compute_api:os-flavor-manage:create to be performed."
	b.do(t, member, "POST", "/flavors", valid).fails(403, "forbidden", denied)
	b.do(t, reader, "POST", "/flavors", valid).fails(403, "forbidden", denied)
	b.do(t, unscoped, "POST", "/flavors", valid).fails(403, "forbidden", denied)
	for _, c := range []struct {
		name, body string
		code       int
		key, want  string
	}{
		{"nothing", ``, 400, "badRequest", "None is not of type 'object'"},
		{"no JSON", `{`, 400, "badRequest", "Malformed request body"},
		{"no name", `{"flavor":{"ram":1,"vcpus":1,"disk":0}}`, 400, "badRequest",
			"Invalid input for field/attribute flavor. Value: {'disk': 0, 'ram': 1, 'vcpus': 1}. 'name' is a required property"},
		{"no memory", `{"flavor":{"name":"a","ram":0,"vcpus":1,"disk":0}}`, 400, "badRequest",
			"Invalid input for field/attribute ram. Value: 0. 0 is less than the minimum of 1"},
		{"too much memory", `{"flavor":{"name":"a","ram":2147483648,"vcpus":1,"disk":0}}`, 400, "badRequest",
			"Invalid input for field/attribute ram. Value: 2147483648. 2147483648 is greater than the maximum of 2147483647"},
		{"later key", `{"flavor":{"name":"a","ram":1,"vcpus":1,"disk":0,"description":"x"}}`, 400, "badRequest",
			"Invalid input for field/attribute flavor. Value: {'description': 'x', 'disk': 0, 'name': 'a', 'ram': 1, 'vcpus': 1}. " +
				"Additional properties are not allowed ('description' was unexpected)"},
		{"bad id", `{"flavor":{"name":"a","id":"a/b","ram":1,"vcpus":1,"disk":0}}`, 400, "badRequest",
			"Invalid input for field/attribute id. Value: a/b. 'a/b' does not match '^(?! )[a-zA-Z0-9. _-]+(?<! )$'"},
		{"same id", `{"flavor":{"name":"a","id":"1","ram":1,"vcpus":1,"disk":0}}`, 409, "conflictingRequest", "Flavor with ID 1 already exists."},
		{"same name", `{"flavor":{"name":"name-of-1","ram":1,"vcpus":1,"disk":0}}`, 409, "conflictingRequest", "Flavor with name name-of-1 already exists."},
	} {
		t.Run(c.name, func(t *testing.T) {
			b.do(t, admin, "POST", "/flavors", c.body).fails(c.code, c.key, c.want)
		})
	}
	b.do(t, admin, "POST", "/flavors", valid, header("Content-Type", "application/xml")).fails(415, "badMediaType", "Unsupported Content-Type")
	b.do(t, admin, "POST", "/flavors", `{"flavor":{"name":"`+strings.Repeat("a", api.MaxBody)+`"}}`).fails(413, "overLimit", "Request is too large.")
	require.Len(t, b.do(t, admin, "GET", "/flavors?is_public=None", "").get("flavors"), 1, "nothing was left")
}

func TestLegacyEndpointDropsUnknownKeys(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.raw(t, admin, "POST", "/v2/flavors", `{"flavor":{"name":"a","id":"1","ram":1,"vcpus":1,"disk":0,"nonsense":1}}`, at("2.61")).ok(200)
	require.Equal(t, "http://cloud.example:8774/v2/flavors/1", a.get("flavor", "links", 0, "href"))
	require.NotContains(t, a.keys("flavor"), "description")
}

func TestFlavorUpdateAndDelete(t *testing.T) {
	t.Parallel()
	b := setup(t)
	newFlavor(t, b, "1", "")
	body := `{"flavor":{"description":"new"}}`
	b.do(t, admin, "PUT", "/flavors/1", body, at("2.54")).fails(404, "itemNotFound", "API version 2.54 is not supported on this method.")
	b.do(t, member, "PUT", "/flavors/1", body, at("2.55")).
		fails(403, "forbidden", "Policy doesn't allow os_compute_api:os-flavor-manage:update to be performed.")
	require.Equal(t, "new", b.do(t, admin, "PUT", "/flavors/1", body, at("2.55")).ok(200).get("flavor", "description"))
	b.do(t, admin, "PUT", "/flavors/2", body, at("2.55")).fails(404, "itemNotFound", "Flavor 2 could not be found.")
	b.do(t, admin, "PUT", "/flavors/1", `{"flavor":{"name":"x"}}`, at("2.55")).fails(400, "badRequest",
		"Invalid input for field/attribute flavor. Value: {'name': 'x'}. 'description' is a required property")
	b.do(t, member, "DELETE", "/flavors/1", "").
		fails(403, "forbidden", "Policy doesn't allow os_compute_api:os-flavor-manage:delete to be performed.")
	b.do(t, admin, "DELETE", "/flavors/1", "").is(202, "")
	b.do(t, admin, "DELETE", "/flavors/1", "").fails(404, "itemNotFound", "Flavor 1 could not be found.")
}

// ids gives the ids of a list.
func ids(t *testing.T, a answer, list string) []string {
	t.Helper()
	found := []string{}
	for _, item := range a.ok(200).get(list).([]any) {
		found = append(found, item.(map[string]any)["id"].(string))
	}
	return found
}

func TestFlavorList(t *testing.T) {
	t.Parallel()
	b := setup(t)
	newFlavor(t, b, "a", `,"swap":3`)
	newFlavor(t, b, "b", `,"swap":1`)
	newFlavor(t, b, "c", `,"swap":2`)
	newFlavor(t, b, "secret", `,"os-flavor-access:is_public":false`)
	newFlavor(t, b, "shared", `,"os-flavor-access:is_public":false`)
	b.do(t, admin, "POST", "/flavors/shared/action", `{"addTenantAccess":{"tenant":"`+elsewhere+`"}}`).ok(200)
	for _, c := range []struct {
		as    who
		query string
		want  []string
	}{
		{member, "", []string{"a", "b", "c"}},
		{member, "?is_public=None", []string{"a", "b", "c"}},
		{stranger, "", []string{"a", "b", "c", "shared"}},
		{admin, "", []string{"a", "b", "c"}},
		{admin, "?is_public=None", []string{"a", "b", "c", "secret", "shared"}},
		{admin, "?is_public=false", []string{"secret", "shared"}},
		{member, "?minRam=513", []string{}},
		{member, "?minRam=512&minDisk=1", []string{"a", "b", "c"}},
		{member, "?minDisk=2", []string{}},
		{member, "?sort_key=swap", []string{"b", "c", "a"}},
		{member, "?sort_key=swap&sort_dir=desc", []string{"a", "c", "b"}},
		{member, "?limit=0", []string{}},
		{member, "?limit=2", []string{"a", "b"}},
		{member, "?limit=2&marker=b", []string{"c"}},
		{member, "?sort_key=swap&marker=c", []string{"a"}},
		{member, "?limit=99999999999999999999", []string{"a", "b", "c"}},
		{member, "?unknown=1", []string{"a", "b", "c"}},
	} {
		require.Equal(t, c.want, ids(t, b.do(t, c.as, "GET", "/flavors"+c.query, ""), "flavors"), c.query)
		require.Equal(t, c.want, ids(t, b.do(t, c.as, "GET", "/flavors/detail"+c.query, ""), "flavors"), c.query)
	}
	next := b.do(t, member, "GET", "/flavors/detail?limit=2&sort_dir=asc", "").get("flavors_links", 0)
	require.Equal(t, map[string]any{"rel": "next", "href": "http://cloud.example:8774/v2.1/flavors/detail?limit=2&marker=b&sort_dir=asc"}, next)
	require.NotContains(t, b.do(t, member, "GET", "/flavors?limit=4", "").keys(), "flavors_links")

	for query, want := range map[string]string{
		"?limit=-1":         "Invalid input for query parameters limit. Value: -1. '-1' does not match '^[0-9]*$'",
		"?limit=x":          "Invalid input for query parameters limit. Value: x. 'x' does not match '^[0-9]*$'",
		"?marker=none":      "marker [none] not found",
		"?marker=secret":    "marker [secret] not found",
		"?minRam=x":         "Invalid minRam filter [x]",
		"?minDisk=1.5":      "Invalid minDisk filter [1.5]",
		"?sort_dir=up":      "Invalid input for query parameters sort_dir. Value: up. 'up' is not one of ['asc', 'desc']",
		"?sort_key=color":   "Invalid input for query parameters sort_key. Value: color. 'color' is not one of ['created_at', 'description', 'disabled', 'ephemeral_gb', 'flavorid', 'id', 'is_public', 'memory_mb', 'name', 'root_gb', 'rxtx_factor', 'swap', 'updated_at', 'vcpu_weight', 'vcpus']",
		"?minRam=1&limit=%": "Malformed request URL: the query string cannot be read.",
	} {
		b.do(t, member, "GET", "/flavors"+query, "").fails(400, "badRequest", want)
	}
	b.do(t, admin, "GET", "/flavors?is_public=perhaps", "").fails(400, "badRequest", "Invalid is_public filter [perhaps]")
	b.do(t, member, "GET", "/flavors?unknown=1", "", at("2.75")).fails(400, "badRequest", "Additional properties are not allowed ('unknown' was unexpected)")
}

func TestFlavorVisibility(t *testing.T) {
	t.Parallel()
	b := setup(t)
	newFlavor(t, b, "p", `,"os-flavor-access:is_public":false`)
	b.do(t, member, "GET", "/flavors/p", "").fails(404, "itemNotFound", "Flavor p could not be found.")
	b.do(t, admin, "GET", "/flavors/p", "").ok(200)
	b.do(t, member, "GET", "/flavors/p/os-extra_specs", "").fails(404, "itemNotFound", "Flavor p could not be found.")
	b.do(t, admin, "POST", "/flavors/p/action", `{"addTenantAccess":{"tenant":"`+project+`"}}`).ok(200)
	b.do(t, member, "GET", "/flavors/p", "").ok(200)
	b.do(t, stranger, "GET", "/flavors/p", "").ok(404)
}

// TestHostileValues sends what a schema lets through or a library may trip over.
func TestHostileValues(t *testing.T) {
	t.Parallel()
	b := setup(t)
	newFlavor(t, b, "1", "")
	for _, c := range []struct{ name, method, path, body string }{
		{"huge exponent", "POST", "/flavors", `{"flavor":{"name":"a","ram":1e999999999,"vcpus":1,"disk":0}}`},
		{"huge exponent in text", "POST", "/flavors", `{"flavor":{"name":"a","ram":"1e999999999","vcpus":1,"disk":0}}`},
		{"large exponent", "POST", "/flavors", `{"flavor":{"name":"a","ram":1e99999,"vcpus":1,"disk":0}}`},
		{"huge factor", "POST", "/flavors", `{"flavor":{"name":"a","ram":1,"vcpus":1,"disk":0,"rxtx_factor":1e999999999}}`},
		{"huge number as id", "POST", "/flavors", `{"flavor":{"name":"a","id":1e999999999,"ram":1,"vcpus":1,"disk":0}}`},
		{"long number as id", "POST", "/flavors", `{"flavor":{"name":"a","id":` + strings.Repeat("1", 401) + `,"ram":1,"vcpus":1,"disk":0}}`},
		{"deep", "POST", "/flavors", strings.Repeat(`{"flavor":`, 9000) + `1` + strings.Repeat(`}`, 9000)},
		{"null character in a value", "POST", "/flavors/1/os-extra_specs", `{"extra_specs":{"a":"\u0000"}}`},
		{"null character in a path", "GET", "/os-keypairs/%00", ""},
		{"no UTF-8 in a path", "GET", "/os-keypairs/%ff", ""},
		{"null character in a query", "GET", "/flavors?marker=%00", ""},
		{"lone surrogate", "POST", "/flavors", `{"flavor":{"name":"\ud800","ram":1,"vcpus":0,"disk":0}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, 400, b.do(t, admin, c.method, c.path, c.body).code)
		})
	}
	require.NotContains(t, b.log.String(), `"panic"`)
}
