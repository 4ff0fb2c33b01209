package volume_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	imagelocal "strongroom/activities/image/local"
	"strongroom/api"
	"strongroom/devcloud"
	"strongroom/schema/schematest"
)

// The callers of the tests. Admin, member and reader work in one project, the
// stranger is a member of another one.
const (
	admin    = "admin"
	member   = "member"
	reader   = "reader"
	stranger = "stranger"
	nobody   = "nobody"
	observer = "observer" // with Barbican's role alone
	foreign  = "foreign"  // with the role of a service that is not there
)

// The oldest and the newest version.
const (
	oldest = "3.0"
	newest = "3.71"
)

// cloud is an identity service with callers that are logged in.
type cloud struct {
	identity *gophercloud.ServiceClient // strongroom's own user, who may validate tokens
	callers  map[string]*gophercloud.ProviderClient
	// others are callers whose roles mean nothing to the API.
	others []string
	// environment is what the standard client needs to be a caller and to find the
	// API at an address.
	environment func(t testing.TB, caller, address string) []string
}

// project gives the id of the project that a caller is logged in to.
func (c cloud) project(t testing.TB, caller string) string {
	t.Helper()
	if caller == nobody {
		return "none"
	}
	result, ok := c.callers[caller].GetAuthResult().(tokens.CreateResult)
	require.True(t, ok)
	project, err := result.ExtractProject()
	require.NoError(t, err)
	return project.ID
}

// onDevcloud gives the identity service of the one-machine mode, in whose catalog
// the API is at an address; "" for nowhere.
func onDevcloud(t testing.TB, address string) cloud {
	t.Helper()
	dir := t.TempDir()
	images, err := imagelocal.Open(imagelocal.Config{Dir: filepath.Join(dir, "images")})
	require.NoError(t, err)
	passwords := map[string]string{}
	users := filepath.Join(dir, "users.yaml")
	require.NoError(t, devcloud.EnsureUsers(users, func(made map[string]string) error { passwords = made; return nil }))
	config := devcloud.Config{Listen: "127.0.0.1:0", UsersFile: users, TokenKeyFile: filepath.Join(dir, "token.key"), Images: images}
	if address != "" {
		config.Endpoints = map[string]string{"volumev3": address + "/volume/v3/$(project_id)s"}
	}
	server, err := devcloud.New(config)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx) }()
	t.Cleanup(func() { cancel(); require.NoError(t, <-served) })

	login := func(user, project string) *gophercloud.ProviderClient {
		client, err := openstack.AuthenticatedClient(context.Background(), gophercloud.AuthOptions{
			IdentityEndpoint: server.AuthURL(), Username: user, Password: passwords[user], TenantName: project, DomainName: "Default", AllowReauth: true,
		})
		require.NoError(t, err)
		return client
	}
	identity, err := openstack.NewIdentityV3(login(devcloud.ServiceUser, devcloud.ServiceProject), gophercloud.EndpointOpts{Region: "RegionOne"})
	require.NoError(t, err)
	names := map[string]string{admin: "admin", member: "demo", reader: "reader"}
	return cloud{
		identity: identity,
		callers: map[string]*gophercloud.ProviderClient{
			admin: login("admin", "demo"), member: login("demo", "demo"), reader: login("reader", "demo"), stranger: login("alt", "alt"),
		},
		environment: func(_ testing.TB, caller, _ string) []string {
			return []string{
				"OS_IDENTITY_API_VERSION=3", "OS_AUTH_URL=" + server.AuthURL(), "OS_USERNAME=" + names[caller], "OS_PASSWORD=" + passwords[names[caller]],
				"OS_PROJECT_NAME=demo", "OS_USER_DOMAIN_NAME=Default", "OS_PROJECT_DOMAIN_NAME=Default", "OS_REGION_NAME=RegionOne",
			}
		},
	}
}

// bundle is the API on a database of its own.
type bundle struct {
	t      testing.TB
	api    http.Handler
	pool   *pgxpool.Pool
	cloud  cloud
	log    *bytes.Buffer
	policy bool   // is another than the default one
	at     string // the version that requests ask for; "" for none
}

// setup gives the API; change may alter its configuration first.
func setup(t testing.TB, c cloud, change ...func(*api.Config)) *bundle {
	t.Helper()
	b := &bundle{t: t, pool: schematest.New(t), cloud: c, log: &bytes.Buffer{}}
	config := api.Config{Pool: b.pool, Identity: c.identity, VolumeType: "__DEFAULT__", Logger: slog.New(slog.NewJSONHandler(b.log, nil))}
	for _, alter := range change {
		alter(&config)
	}
	b.policy = config.PolicyFile != ""
	var err error
	b.api, err = api.New(config)
	require.NoError(t, err)
	return b
}

// version gives the same API to a test that asks for a version.
func (b *bundle) version(t testing.TB, version string) *bundle {
	other := *b
	other.t, other.at = t, version
	return &other
}

// answer is what the API said.
type answer struct {
	t      testing.TB
	code   int
	header http.Header
	body   string
}

// do sends a request about something of the caller's project.
func (b *bundle) do(caller, method, path, body string, headers ...string) answer {
	b.t.Helper()
	return b.raw(caller, method, "/v3/"+b.cloud.project(b.t, caller)+path, body, headers...)
}

// raw is do for a whole path. headers are pairs of names and values.
func (b *bundle) raw(caller, method, path, body string, headers ...string) answer {
	b.t.Helper()
	return b.send(b.t.Context(), caller, method, path, body, headers...)
}

// during is do for a client that may be gone.
func (b *bundle) during(ctx context.Context, caller, method, path string) answer {
	b.t.Helper()
	return b.send(ctx, caller, method, "/v3/"+b.cloud.project(b.t, caller)+path, "")
}

func (b *bundle) send(ctx context.Context, caller, method, path, body string, headers ...string) answer {
	b.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, "http://cloud.example:8774"+path, strings.NewReader(body))
	require.NoError(b.t, err)
	if caller != nobody {
		r.Header.Set("X-Auth-Token", b.cloud.callers[caller].Token())
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if b.at != "" {
		r.Header.Set("OpenStack-API-Version", "volume "+b.at)
	}
	for pair := range slices.Chunk(headers, 2) {
		r.Header.Set(pair[0], pair[1])
	}
	w := httptest.NewRecorder()
	b.api.ServeHTTP(w, r)
	assert.NoError(b.t, b.check(caller, r, w), "%s %s", method, path)
	return answer{t: b.t, code: w.Code, header: w.Header(), body: w.Body.String()}
}

// ok checks for success with a status.
func (a answer) ok(code int) answer {
	a.t.Helper()
	require.Equal(a.t, code, a.code, a.body)
	return a
}

// is checks status and body.
func (a answer) is(code int, body string) answer {
	a.t.Helper()
	require.Equal(a.t, code, a.code, a.body)
	if body == "" {
		require.Empty(a.t, a.body)
	} else {
		require.JSONEq(a.t, body, a.body)
	}
	return a
}

// fails checks that the answer is a fault of a status, with its name and text.
func (a answer) fails(code int, name, message string) answer {
	a.t.Helper()
	text, err := json.Marshal(message)
	require.NoError(a.t, err)
	return a.is(code, fmt.Sprintf(`{%q:{"code":%d,"message":%s}}`, name, code, text))
}

// denied checks that a policy rule refused the request.
func (a answer) denied(rule string) answer {
	a.t.Helper()
	return a.fails(403, "forbidden", "Policy doesn't allow volume_extension:"+rule+" to be performed.")
}

// types gives a list's types by name, and the names in order.
func (a answer) types() (map[string]map[string]any, []string) {
	a.t.Helper()
	var list struct {
		Types []map[string]any `json:"volume_types"`
	}
	require.NoError(a.t, json.Unmarshal([]byte(a.ok(200).body), &list))
	byName, names := map[string]map[string]any{}, []string{}
	for _, item := range list.Types {
		name := item["name"].(string)
		byName[name], names = item, append(names, name)
	}
	return byName, names
}

// names gives the names of a list, in order.
func (a answer) names() []string {
	a.t.Helper()
	_, names := a.types()
	return names
}

// thing gives the one object that an answer shows.
func (a answer) thing(name string) map[string]any {
	a.t.Helper()
	var body map[string]map[string]any
	require.NoError(a.t, json.Unmarshal([]byte(a.ok(200).body), &body))
	require.Contains(a.t, body, name)
	return body[name]
}

// create makes a public type with extra specs and gives its id.
func (b *bundle) create(name, specs string) string {
	b.t.Helper()
	if specs == "" {
		specs = "{}"
	}
	return b.do(admin, "POST", "/types", `{"volume_type":{"name":"`+name+`","extra_specs":`+specs+`}}`).thing("volume_type")["id"].(string)
}

// createPrivate makes a private type and gives its id.
func (b *bundle) createPrivate(name string) string {
	b.t.Helper()
	return b.do(admin, "POST", "/types", `{"volume_type":{"name":"`+name+`","os-volume-type-access:is_public":false}}`).thing("volume_type")["id"].(string)
}

func (b *bundle) count(sql string, args ...any) int {
	b.t.Helper()
	var n int
	require.NoError(b.t, b.pool.QueryRow(context.Background(), sql, args...).Scan(&n))
	return n
}

// fill makes types with ten extra specs each, two of them visible.
func (b *bundle) fill(types int) {
	b.t.Helper()
	_, err := b.pool.Exec(context.Background(), `
		WITH made AS (
			INSERT INTO volume_types (id, name) SELECT gen_random_uuid(), 'type-' || gen_random_uuid() FROM generate_series(1, $1) RETURNING id
		) INSERT INTO volume_type_extra_specs (volume_type_id, key, value)
		SELECT id, key, '<is> True' FROM made, unnest(ARRAY['multiattach', 'replication_enabled', 'volume_backend_name', 'a', 'b', 'c', 'd', 'e', 'f', 'g']) key`, types)
	require.NoError(b.t, err)
}

// links gives the addresses of more of a list.
func links(a answer) []string {
	a.t.Helper()
	var body struct {
		Links []struct{ Rel, Href string } `json:"volume_type_links"`
	}
	require.NoError(a.t, json.Unmarshal([]byte(a.body), &body))
	var found []string
	for _, link := range body.Links {
		require.Equal(a.t, "next", link.Rel)
		found = append(found, link.Href)
	}
	return found
}

// get gives the id of a type of a list.
func (a answer) get(name string) string {
	a.t.Helper()
	types, _ := a.types()
	require.Contains(a.t, types, name)
	return types[name]["id"].(string)
}
