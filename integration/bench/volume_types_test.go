// Package bench_test measures what answers of the API, audits, exports and creates cost:
//
//	./task bench
package bench_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	imagelocal "strongroom/activities/image/local"
	"strongroom/api"
	"strongroom/devcloud"
	"strongroom/schema/schematest"
)

// BenchmarkVolumeTypes lists 1,000 types with ten extra specs each, as an
// administrator (all ten are shown) and as a member (two are), and looks one type
// up among them.
func BenchmarkVolumeTypes(b *testing.B) {
	f := newFront(b)
	f.fill(b, 1000)
	multiattach := "/types?extra_specs=" + url.QueryEscape(`{"multiattach":"<is> True"}`)
	for _, m := range []struct{ name, caller, path string }{
		{"list 1000 as admin", "admin", "/types"},
		{"list 1000 as member", "demo", "/types"},
		{"list by a visible key as member", "demo", multiattach},
		{"list by a hidden key as member", "demo", "/types?extra_specs=" + url.QueryEscape(`{"volume_backend_name":"pool"}`)},
		{"first page of 100 as member", "demo", "/types?limit=100&sort=name:asc"},
		{"show one as member", "demo", "/types/" + f.one},
		{"show a visible key as member", "demo", "/types/" + f.one + "/extra_specs/multiattach"},
	} {
		b.Run(m.name, func(b *testing.B) {
			before, bytes := f.queries.Load(), 0
			for b.Loop() {
				bytes = f.get(b, m.caller, m.path)
			}
			b.ReportMetric(float64(f.queries.Load()-before)/float64(b.N), "queries/op")
			b.ReportMetric(float64(bytes)/1024, "KiB/answer")
		})
	}
}

// BenchmarkHiddenKey asks in turn for a key that is hidden and for one that is not
// there, one by one and by a filter, and reports how much longer the median of the
// hidden one's answers takes: 1.0 when time tells nothing.
func BenchmarkHiddenKey(b *testing.B) {
	f := newFront(b)
	f.fill(b, 1000)
	filter := func(specs string) string { return "/types?extra_specs=" + url.QueryEscape(specs) }
	for _, m := range []struct{ name, hidden, missing string }{
		{"show", "/types/" + f.one + "/extra_specs/volume_backend_name", "/types/" + f.one + "/extra_specs/volume_frontend_nam"},
		{"filter", filter(`{"volume_backend_name":"pool"}`), filter(`{"volume_frontend_nam":"pool"}`)},
	} {
		b.Run(m.name, func(b *testing.B) {
			var hidden, missing []time.Duration
			for b.Loop() {
				hidden = append(hidden, f.time(b, m.hidden))
				missing = append(missing, f.time(b, m.missing))
			}
			b.ReportMetric(float64(median(hidden))/float64(median(missing)), "hidden/missing")
		})
	}
}

func (f *front) time(b *testing.B, path string) time.Duration {
	start := time.Now()
	f.ask(b, "demo", path)
	return time.Since(start)
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

// front is the API over a database whose queries are counted.
type front struct {
	handler http.Handler
	pool    *pgxpool.Pool
	tokens  map[string]string
	one     string // a type's id
	queries atomic.Int64
}

// TraceQueryStart counts a query.
func (f *front) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	f.queries.Add(1)
	return ctx
}

// TraceQueryEnd is of no interest here.
func (f *front) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func newFront(b *testing.B) *front {
	b.Helper()
	f := &front{tokens: map[string]string{}}
	traced := schematest.New(b).Config()
	traced.ConnConfig.Tracer = f
	pool, err := pgxpool.NewWithConfig(b.Context(), traced)
	require.NoError(b, err)
	b.Cleanup(pool.Close)
	f.pool = pool
	f.handler, err = api.New(api.Config{Pool: pool, Identity: f.identity(b)})
	require.NoError(b, err)
	return f
}

// identity starts an identity service and logs its users in.
func (f *front) identity(b *testing.B) *gophercloud.ServiceClient {
	b.Helper()
	dir := b.TempDir()
	images, err := imagelocal.Open(imagelocal.Config{Dir: filepath.Join(dir, "images")})
	require.NoError(b, err)
	passwords, users := map[string]string{}, filepath.Join(dir, "users.yaml")
	require.NoError(b, devcloud.EnsureUsers(users, func(made map[string]string) error { passwords = made; return nil }))
	server, err := devcloud.New(devcloud.Config{Listen: "127.0.0.1:0", UsersFile: users, TokenKeyFile: filepath.Join(dir, "token.key"), Images: images})
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx) }()
	b.Cleanup(func() { cancel(); require.NoError(b, <-served) })
	login := func(user, project string) *gophercloud.ProviderClient {
		client, err := openstack.AuthenticatedClient(b.Context(), gophercloud.AuthOptions{
			IdentityEndpoint: server.AuthURL(), Username: user, Password: passwords[user], TenantName: project, DomainName: "Default",
		})
		require.NoError(b, err)
		f.tokens[user] = client.Token()
		return client
	}
	login("admin", "demo")
	login("demo", "demo")
	client, err := openstack.NewIdentityV3(login(devcloud.ServiceUser, devcloud.ServiceProject), gophercloud.EndpointOpts{Region: "RegionOne"})
	require.NoError(b, err)
	return client
}

// fill makes types with ten extra specs each, two of them visible.
func (f *front) fill(b *testing.B, types int) {
	b.Helper()
	_, err := f.pool.Exec(b.Context(), `
		WITH made AS (
			INSERT INTO volume_types (id, name, description) SELECT gen_random_uuid(), 'type-' || n, 'type number ' || n FROM generate_series(1, $1) n
			RETURNING id
		) INSERT INTO volume_type_extra_specs (volume_type_id, key, value)
		SELECT id, key, CASE key WHEN 'volume_backend_name' THEN 'pool' ELSE '<is> True' END
		FROM made, unnest(ARRAY['multiattach', 'replication_enabled', 'volume_backend_name', 'provisioning:type', 'drivers:qos',
			'capabilities:a', 'capabilities:b', 'capabilities:c', 'capabilities:d', 'capabilities:e']) key`, types)
	require.NoError(b, err)
	_, err = f.pool.Exec(b.Context(), "ANALYZE")
	require.NoError(b, err)
	require.NoError(b, f.pool.QueryRow(b.Context(), "SELECT id::text FROM volume_types LIMIT 1").Scan(&f.one))
	var list struct {
		Types []json.RawMessage `json:"volume_types"`
	}
	require.NoError(b, json.Unmarshal(f.ask(b, "demo", "/types").Body.Bytes(), &list))
	require.Len(b, list.Types, types)
}

// get asks as a user and gives how long the answer is.
func (f *front) get(b *testing.B, caller, path string) int { return f.ask(b, caller, path).Body.Len() }

func (f *front) ask(b *testing.B, caller, path string) *httptest.ResponseRecorder {
	r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, "http://cloud.example/v3"+path, nil)
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("X-Auth-Token", f.tokens[caller])
	r.Header.Set("OpenStack-API-Version", "volume 3.71")
	w := httptest.NewRecorder()
	f.handler.ServeHTTP(w, r)
	if w.Code != http.StatusOK && w.Code != http.StatusNotFound {
		b.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	return w
}
