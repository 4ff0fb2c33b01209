package volume_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"github.com/stretchr/testify/require"

	"strongroom/api"
	"strongroom/deploy/cloud/cloudtest"
)

// Of the tests against a volume endpoint of somebody's choice: the clouds of an administrator, a member and a
// reader of one project, with commas between them, and the endpoint's type in the catalog.
const (
	callersVariable = "STRONGROOM_TEST_VOLUME_CLOUDS"
	typeVariable    = "STRONGROOM_TEST_VOLUME_TYPE"
)

// VT-13: every row as one subtest, against any volume endpoint: strongroom's own, Debian's Cinder beside it where
// the cloud of deploy/cloud runs one (it does in test:ops), and the one that the variables name:
//
//	STRONGROOM_TEST_VOLUME_CLOUDS=my-admin,my-member,my-reader go test -v -run TestVT13 ./api/volume
//
// Nothing but the document is asked for; what strongroom promises beyond it is in TestRows. The types that are made
// begin with "vt13-", and go again.
func TestVT13RowsOfAnyEndpoint(t *testing.T) {
	t.Parallel()
	for _, e := range endpointsToTest(t) {
		t.Run(e.name, func(t *testing.T) {
			for _, version := range []string{"3.0", "latest"} {
				t.Run("at "+version, func(t *testing.T) { e.rows(t, version) })
			}
		})
	}
}

// anyEndpoint is a volume endpoint, and how callers reach it.
type anyEndpoint struct {
	name    string
	callers map[string]reached
	// badFilter is what a filter that cannot be read is answered with: Cinder fails with some.
	badFilter []int
}

// reached is an endpoint, with its project, and a token of a caller's.
type reached struct{ url, token string }

func endpointsToTest(t *testing.T) []anyEndpoint {
	t.Helper()
	c := onDevcloud(t, "")
	if os.Getenv(cloudtest.Variable) != "" {
		c = onKeystone(t) // which has users whose roles mean nothing here
	}
	b := setup(t, c)
	b.create("another", "") // for the last one cannot be deleted
	server := httptest.NewServer(b.api)
	t.Cleanup(server.Close)
	own := anyEndpoint{name: "strongroom", callers: map[string]reached{}, badFilter: []int{400}}
	for _, caller := range slices.Concat(everyone, c.others) {
		own.callers[caller] = reached{server.URL + "/volume/v3/" + c.project(t, caller), c.callers[caller].Token()}
	}
	all := []anyEndpoint{own}
	if os.Getenv("STRONGROOM_TEST_FULL") != "" {
		debians := cinder(t)
		all = append(all, debians, throughStrongroom(t, onKeystone(t), debians))
	}
	if names := os.Getenv(callersVariable); names != "" {
		all = append(all, named(t, strings.Split(names, ",")))
	}
	return all
}

// cinder is Debian's, in the cloud of deploy/cloud. It wants readers, where the document lets any authorised user see
// extra specs: an observer lists types there, without theirs.
func cinder(t *testing.T) anyEndpoint {
	t.Helper()
	cloudtest.Open(t)
	e := anyEndpoint{name: "Cinder", callers: map[string]reached{}, badFilter: []int{200, 400, 500}}
	for caller, user := range map[string]string{admin: "admin-demo", member: "member", reader: "reader"} {
		e.callers[caller] = reach(t, cloudtest.Login(t, user), "cinder", cloudtest.Endpoint)
	}
	return e
}

// throughStrongroom is an endpoint, with strongroom before it.
func throughStrongroom(t *testing.T, c cloud, behind anyEndpoint) anyEndpoint {
	t.Helper()
	through := anyEndpoint{name: behind.name + " through strongroom", callers: map[string]reached{}, badFilter: behind.badFilter}
	for caller, of := range behind.callers {
		root, project, ok := strings.Cut(of.url, "/v3/")
		require.True(t, ok, of.url)
		endpoint, err := url.Parse(root + "/v3")
		require.NoError(t, err)
		server := httptest.NewServer(setup(t, c, func(config *api.Config) { config.Cinder = endpoint }).api)
		t.Cleanup(server.Close)
		through.callers[caller] = reached{server.URL + "/volume/v3/" + project, of.token}
	}
	return through
}

func named(t *testing.T, names []string) anyEndpoint {
	t.Helper()
	require.Len(t, names, len(everyone), "%s names an administrator's, a member's and a reader's cloud", callersVariable)
	kind := os.Getenv(typeVariable)
	if kind == "" {
		kind = "volumev3"
	}
	e := anyEndpoint{name: kind, callers: map[string]reached{}, badFilter: []int{200, 400, 500}}
	for i, caller := range everyone {
		auth, endpoint, tls, err := clouds.Parse(clouds.WithCloudName(names[i]))
		require.NoError(t, err)
		provider, err := config.NewProviderClient(t.Context(), auth, config.WithTLSConfig(tls))
		require.NoError(t, err)
		e.callers[caller] = reach(t, provider, kind, endpoint)
	}
	return e
}

func reach(t *testing.T, provider *gophercloud.ProviderClient, kind string, endpoint gophercloud.EndpointOpts) reached {
	t.Helper()
	endpoint.ApplyDefaults(kind)
	address, err := provider.EndpointLocator(endpoint)
	require.NoError(t, err)
	return reached{strings.TrimSuffix(address, "/"), provider.Token()}
}

// visit is one run of the rows, with the types that it made.
type visit struct {
	anyEndpoint
	*testing.T
	version            string
	prefix             string
	full, hidden, bare string // ids
}

const (
	hiddenSpec  = "volume_backend_name"
	hiddenValue = "SecretName"
)

var visibleSpecs = map[string]any{"multiattach": "<is> True", "RESKEY:availability_zones": "az1,az2", "replication_enabled": "<is> True"}

// rows makes types and goes through the rows.
func (e anyEndpoint) rows(t *testing.T, version string) {
	v := visit{anyEndpoint: e, T: t, version: version, prefix: "vt13-" + uuid.NewString()[:8] + "-"}
	all := map[string]any{hiddenSpec: hiddenValue, "Multiattach": "<is> True", "multiattach2": "<is> True", "replication:enabled": "<is> True", "RESKEY:availability_zone": "az1"}
	for key, value := range visibleSpecs {
		all[key] = value
	}
	v.full, v.hidden, v.bare = v.create("full", all), v.create("hidden", map[string]any{hiddenSpec: hiddenValue}), v.create("bare", nil)
	for _, row := range []struct {
		name string
		run  func(visit)
	}{
		{"VT-01", visit.visibleKeys}, {"VT-02", visit.listAndShow}, {"VT-03", visit.index}, {"VT-04", visit.visibleKey},
		{"VT-05", visit.hiddenKey}, {"VT-06", visit.sensitive}, {"VT-07", visit.policies}, {"VT-08", visit.everyVersion},
		{"VT-09", visit.keysOfType}, {"VT-10", visit.writes}, {"VT-11", visit.filters},
	} {
		t.Run(row.name, func(t *testing.T) {
			at := v
			at.T = t
			row.run(at)
		})
	}
}

func (v visit) create(name string, specs map[string]any) string {
	v.Helper()
	if specs == nil {
		specs = map[string]any{}
	}
	body, err := json.Marshal(map[string]any{"volume_type": map[string]any{"name": v.prefix + name, "description": name, "extra_specs": specs}})
	require.NoError(v, err)
	id := v.do(admin, "POST", "/types", string(body)).thing("volume_type")["id"].(string)
	v.Cleanup(func() { v.do(admin, "DELETE", "/types/"+id, "").ok(http.StatusAccepted) })
	return id
}

func (v visit) do(caller, method, path, body string) answer {
	v.Helper()
	as := v.callers[caller]
	r, err := http.NewRequest(method, as.url+path, strings.NewReader(body))
	require.NoError(v, err)
	r.Header.Set("X-Auth-Token", as.token)
	r.Header.Set("OpenStack-API-Version", "volume "+v.version)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(r)
	require.NoError(v, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	require.NoError(v, err)
	return answer{t: v.T, code: resp.StatusCode, header: resp.Header, body: string(text)}
}

// specs gives the extra specs that a caller sees of a type: in a list, alone, and by themselves, which are the same.
func (v visit) specs(caller, name, id string) map[string]any {
	v.Helper()
	listed, _ := v.do(caller, "GET", "/types", "").types()
	shown := v.do(caller, "GET", "/types/"+id, "").thing("volume_type")["extra_specs"]
	index := v.do(caller, "GET", "/types/"+id+"/extra_specs", "").thing("extra_specs")
	require.Equal(v, shown, listed[v.prefix+name]["extra_specs"])
	require.Equal(v, shown, any(index))
	return index
}

func (v visit) visibleKeys() {
	for _, caller := range users {
		require.Equal(v, visibleSpecs, v.specs(caller, "full", v.full))
	}
}

func (v visit) listAndShow() {
	for _, caller := range users {
		require.Empty(v, v.specs(caller, "hidden", v.hidden))
		require.Empty(v, v.specs(caller, "bare", v.bare))
		require.NotContains(v, v.do(caller, "GET", "/types", "").ok(200).body, hiddenValue)
	}
}

func (v visit) index() {
	for _, caller := range users {
		v.do(caller, "GET", "/types/"+v.hidden+"/extra_specs", "").is(200, `{"extra_specs":{}}`)
	}
}

func (v visit) visibleKey() {
	for _, caller := range everyone {
		for key, value := range visibleSpecs {
			v.do(caller, "GET", "/types/"+v.full+"/extra_specs/"+key, "").is(200, `{"`+key+`":"`+value.(string)+`"}`)
		}
	}
}

func (v visit) hiddenKey() {
	const missing = "volume_frontend_nam" // as long as the hidden one
	for _, caller := range users {
		there := v.do(caller, "GET", "/types/"+v.full+"/extra_specs/"+hiddenSpec, "").ok(404)
		absent := v.do(caller, "GET", "/types/"+v.full+"/extra_specs/"+missing, "").ok(404)
		require.Contains(v, there.body, "itemNotFound")
		require.Equal(v, strings.ReplaceAll(there.body, hiddenSpec, missing), absent.body)
		for _, h := range []http.Header{there.header, absent.header} {
			h.Del("Date")
		}
		require.Equal(v, unlike(there.header), unlike(absent.header))
	}
}

func (v visit) sensitive() {
	seen := v.specs(admin, "full", v.full)
	require.Len(v, seen, len(visibleSpecs)+5)
	require.Equal(v, hiddenValue, seen[hiddenSpec])
	v.do(admin, "GET", "/types/"+v.full+"/extra_specs/"+hiddenSpec, "").is(200, `{"`+hiddenSpec+`":"`+hiddenValue+`"}`)
}

// policies are the defaults, for any authorised user: what they are set to elsewhere is TestRows's.
func (v visit) policies() {
	for caller := range v.callers {
		for _, path := range []string{"/types", "/types/" + v.full, "/types/" + v.full + "/extra_specs", "/types/" + v.full + "/extra_specs/multiattach"} {
			require.Contains(v, v.do(caller, "GET", path, "").ok(200).body, "multiattach")
		}
	}
}

func (v visit) everyVersion() {
	for _, path := range []string{"/types/" + v.full, "/types/" + v.full + "/extra_specs", "/types/" + v.full + "/extra_specs/" + hiddenSpec} {
		for _, caller := range everyone {
			here := v.do(caller, "GET", path, "")
			for _, version := range []string{"3.0", "3.31", "3.52", "latest"} {
				there := v
				there.version = version
				require.Equal(v, here.body, there.do(caller, "GET", path, "").body, "%s at %s", path, version)
			}
		}
	}
}

// keysOfType: the document shows qos_specs_id to users as null, and Cinder leaves it out.
func (v visit) keysOfType() {
	for _, caller := range everyone {
		shown := v.do(caller, "GET", "/types/"+v.full, "").thing("volume_type")
		for _, key := range []string{"id", "name", "description", "is_public", "extra_specs", "os-volume-type-access:is_public"} {
			require.Contains(v, shown, key, caller)
		}
		require.Nil(v, shown["qos_specs_id"])
		for key := range shown {
			require.Contains(v, []string{"id", "name", "description", "is_public", "extra_specs", "os-volume-type-access:is_public", "qos_specs_id"}, key)
		}
	}
}

func (v visit) writes() {
	path := "/types/" + v.full + "/extra_specs"
	before := v.do(admin, "GET", path, "").ok(200).body
	for _, caller := range users {
		v.do(caller, "POST", path, `{"extra_specs":{"multiattach":"<is> False"}}`).ok(403)
		v.do(caller, "PUT", path+"/multiattach", `{"multiattach":"<is> False"}`).ok(403)
		v.do(caller, "DELETE", path+"/multiattach", "").ok(403)
		v.do(caller, "DELETE", path+"/"+hiddenSpec, "").ok(403)
	}
	require.JSONEq(v, before, v.do(admin, "GET", path, "").body)
	v.do(admin, "POST", path, `{"extra_specs":{"one":"1"}}`).ok(200)
	v.do(admin, "PUT", path+"/one", `{"one":"2"}`).is(200, `{"one":"2"}`)
	v.do(admin, "DELETE", path+"/one", "").ok(202)
	require.JSONEq(v, before, v.do(admin, "GET", path, "").body)
}

func (v visit) filters() {
	list := func(caller, filter string) answer {
		return v.do(caller, "GET", "/types?extra_specs="+url.QueryEscape(filter), "")
	}
	for _, caller := range users {
		all := v.do(caller, "GET", "/types", "").ok(200).body
		if v.version == "3.0" { // there is no filter yet
			require.JSONEq(v, all, list(caller, `{"`+hiddenSpec+`":"`+hiddenValue+`"}`).ok(200).body)
			continue
		}
		none := list(caller, `{"no_type_has_this_key":"x"}`).is(200, `{"volume_types":[]}`).body
		for _, guess := range []string{hiddenValue, "other"} {
			require.Equal(v, none, list(caller, `{"`+hiddenSpec+`":"`+guess+`"}`).ok(200).body)
			require.Equal(v, none, list(caller, `{"multiattach":"<is> True","`+hiddenSpec+`":"`+guess+`"}`).ok(200).body)
		}
		require.Contains(v, list(caller, `{"multiattach":"<is> True"}`).names(), v.prefix+"full")
		require.NotContains(v, list(caller, `{"multiattach":"<is> True"}`).names(), v.prefix+"bare")
		for _, bad := range []string{"[]", "5", "{", "null"} {
			require.Contains(v, v.badFilter, list(caller, bad).code, bad)
		}
	}
	if v.version != "3.0" {
		require.Contains(v, list(admin, `{"`+hiddenSpec+`":"`+hiddenValue+`"}`).names(), v.prefix+"hidden")
	}
}
