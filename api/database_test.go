package api_test

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"strongroom/api/microversion"
)

// Every route says when to try again while the database ends statements that take too long.
func TestEveryRouteIsUnavailableWhileTheDatabaseIs(t *testing.T) {
	t.Parallel()
	c := setupTenants(t)
	words := c.home.words(c)
	type request struct {
		as                         who
		method, path, body, speaks string
	}
	requests := map[string]request{}
	for _, r := range c.api.Routes() {
		for _, d := range demands[routeName(r)] {
			for _, version := range d.versions(routedOf(r)) {
				for _, by := range callers {
					if !covers(r, version) || !by.home || d.right(by, d.granted) != d.granted {
						continue
					}
					path := c.home.path(c, r.Path)
					if d.to != "" {
						path = words.Replace(d.to)
					}
					if d.query != "" {
						path += "?" + words.Replace(d.query)
					}
					requests[routeName(r)] = request{by.as, r.Method, path, words.Replace(d.body), version}
				}
			}
		}
	}
	require.Len(t, requests, len(demands))
	holder, err := pgx.ConnectConfig(t.Context(), c.pool.Config().ConnConfig)
	require.NoError(t, err)
	defer holder.Close(context.Background())
	c.exec(`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET statement_timeout = ''50ms''', current_database()); END $$`)
	c.pool.Reset()
	_, err = holder.Exec(t.Context(), `BEGIN; DO $$ DECLARE name text; BEGIN
		FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' LOOP EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', name); END LOOP; END $$`)
	require.NoError(t, err)
	var mu sync.Mutex
	answers := map[string]answer{}
	var all sync.WaitGroup
	for name, r := range requests { // at once: a list of servers has its own limit, which is longer
		all.Go(func() {
			got := c.do(t, r.as, r.method, r.path, r.body, header(microversion.Header, "compute "+r.speaks+", strongroom 1.0"))
			mu.Lock()
			defer mu.Unlock()
			answers[name] = got
		})
	}
	all.Wait()
	var asksNothing []string
	for _, name := range slices.Sorted(maps.Keys(answers)) {
		got := answers[name]
		if got.code < 500 {
			asksNothing = append(asksNothing, name)
			continue
		}
		require.Equal(t, http.StatusServiceUnavailable, got.code, "%s: %s", name, got.body)
		require.NotEmpty(t, got.header.Get("Retry-After"), name)
		require.Contains(t, got.body, "Try again.", name)
	}
	require.Equal(t, []string{
		"DELETE /images/:id", "DELETE /images/:id/metadata/:key", "DELETE /os-security-group-rules/:id", "DELETE /os-security-groups/:id",
		"GET /extensions", "GET /extensions/:alias",
		"GET /images", "GET /images/:id", "GET /images/:id/metadata", "GET /images/:id/metadata/:key", "GET /images/detail",
		"GET /os-networks", "GET /os-networks/:id", "GET /os-quota-class-sets/:id", "GET /os-quota-sets/:id/defaults",
		"GET /os-security-groups", "GET /os-security-groups/:id", "GET /os-tenant-networks", "GET /os-tenant-networks/:id",
		"POST /os-security-group-rules", "POST /os-security-groups", "PUT /os-quota-class-sets/:id", "PUT /os-security-groups/:id",
	}, asksNothing)
}
