package volume_test

import (
	"context"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"strongroom/api"
	"strongroom/api/volume"
)

func TestList(t *testing.T) {
	t.Parallel()
	b := setup(t, onDevcloud(t, ""))
	ids := map[string]string{}
	for _, name := range []string{"b", "a", "c"} {
		ids[name] = b.create(name, "")
	}
	ids["private"], ids["shared"] = b.createPrivate("private"), b.createPrivate("shared")
	b.do(admin, "POST", "/types/"+ids["shared"]+"/action", `{"addProjectAccess":{"project":"`+b.cloud.project(t, stranger)+`"}}`).is(202, "")
	b.do(admin, "PUT", "/types/"+ids["b"], `{"volume_type":{"description":"z"}}`).ok(200)
	for _, c := range []struct {
		caller, query string
		want          []string
	}{
		{member, "", []string{"c", "a", "b"}}, // the youngest first
		{member, "?is_public=None", []string{"c", "a", "b"}},
		{member, "?is_public=false", []string{"c", "a", "b"}},
		{member, "?is_public=nonsense", []string{"c", "a", "b"}},
		{stranger, "", []string{"shared", "c", "a", "b"}},
		{admin, "", []string{"c", "a", "b"}},
		{admin, "?is_public=None", []string{"shared", "private", "c", "a", "b"}},
		{admin, "?is_public=f", []string{"shared", "private"}},
		{admin, "?name=a", []string{"a"}},
		{admin, "?name=A", []string{}},
		{admin, "?name=private", []string{}},
		{admin, "?name=private&is_public=none", []string{"private"}},
		{admin, "?description=z", []string{"b"}},
		{admin, "?id=" + ids["a"], []string{"a"}},
		{admin, "?id=none", []string{}},
		{member, "?name=a", []string{"a"}},
		{member, "?name=private", []string{}},
		{member, "?id=" + ids["private"], []string{}},
		{stranger, "?name=shared", []string{"shared"}},
		{member, "?unknown=x", []string{"c", "a", "b"}},
		{member, "?sort=name", []string{"c", "b", "a"}},
		{member, "?sort=name:asc", []string{"a", "b", "c"}},
		{member, "?sort_key=name&sort_dir=asc", []string{"a", "b", "c"}},
		{member, "?sort=description:desc,name:asc", []string{"b", "a", "c"}},
		{member, "?sort=is_public,%20name%20:%20asc", []string{"a", "b", "c"}},
		{member, "?sort=updated_at", []string{"b", "c", "a"}},
		{member, "?limit=0", []string{}},
		{member, "?limit=2", []string{"c", "a"}},
		{member, "?limit=2&marker=" + ids["a"], []string{"b"}},
		{member, "?limit=1&offset=1", []string{"a"}},
		{member, "?offset=9", []string{}},
		{member, "?limit=99999999999999999999", []string{"c", "a", "b"}},
		{member, "?marker=" + ids["b"], []string{}},
	} {
		got := b.do(c.caller, "GET", "/types"+c.query, "").names()
		if c.query == "?sort=updated_at" {
			require.Equal(t, "b", got[0], "the others were never changed")
			continue
		}
		require.Equal(t, c.want, got, "%s %s", c.caller, c.query)
	}
	for query, want := range map[string]string{
		"?limit=-1":                   "limit param must be positive",
		"?limit=x":                    "limit param must be an integer",
		"?limit=":                     "limit param must be an integer",
		"?offset=-1":                  "offset must be >= 0",
		"?offset=x":                   "offset must be an integer",
		"?offset=2147483648":          "offset must be <= 2147483647",
		"?sort=name:up":               "Invalid input received: Unknown sort direction, must be 'desc' or 'asc'.",
		"?sort=":                      "Invalid input received: Invalid sort key",
		"?sort=name&sort_dir=asc":     "The 'sort_key' and 'sort_dir' parameters are deprecated and cannot be used with the 'sort' parameter.",
		"?marker=none":                "marker [none] not found",
		"?marker=" + ids["private"]:   "marker [" + ids["private"] + "] not found",
		"?limit=1;x":                  "Malformed request url",
		"?limit=1&limit=x&marker=%zz": "Malformed request url",
	} {
		b.do(member, "GET", "/types"+query, "").fails(400, "badRequest", want)
	}
	b.do(admin, "GET", "/types?is_public=perhaps", "").fails(400, "badRequest", "Invalid is_public filter [perhaps]")

	late := b.version(t, newest)
	late.do(member, "GET", "/types?created_at=x", "").fails(400, "badRequest", "Invalid filters created_at are found in query options.")
	late.do(admin, "GET", "/types?x=1&b=2", "").fails(400, "badRequest", "Invalid filters b,x are found in query options.")
	require.Equal(t, []string{"a"}, late.do(member, "GET", "/types?name=a", "").names())
}

// TestPages walks through a list by its links, as clients do.
func TestPages(t *testing.T) {
	t.Parallel()
	b := setup(t, onDevcloud(t, ""))
	want := []string{}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		b.create(name, `{"multiattach":"<is> True"}`)
		want = append(want, name)
	}
	b.create("other", "")
	b = b.version(t, newest)
	next := "/v3/" + b.cloud.project(t, member) + "/types?limit=2&sort=name:asc&extra_specs=" + url.QueryEscape(`{"multiattach":"<is> True"}`)
	var got []string
	for pages := 0; next != ""; pages++ {
		require.Less(t, pages, 4)
		page := b.raw(member, "GET", next, "")
		got = append(got, page.names()...)
		next = ""
		if links := links(page); len(links) > 0 {
			u, err := url.Parse(links[0])
			require.NoError(t, err)
			next = u.RequestURI()
		}
	}
	require.Equal(t, want, got)
}

// counter counts the queries of a pool.
type counter struct{ queries atomic.Int64 }

func (c *counter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.queries.Add(1)
	return ctx
}

func (c *counter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TestOneQuery checks that a read asks the database once, however many types there
// are.
func TestOneQuery(t *testing.T) {
	t.Parallel()
	count := &counter{}
	b := setup(t, onDevcloud(t, ""), func(config *api.Config) {
		traced := config.Pool.Config()
		traced.ConnConfig.Tracer = count
		pool, err := pgxpool.NewWithConfig(context.Background(), traced)
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		config.Pool = pool
	})
	b = b.version(t, newest)
	id := b.create("first", `{"multiattach":"<is> True"}`)
	for _, types := range []int{1, 10, 300} {
		b.fill(types)
		for _, caller := range everyone {
			for _, path := range []string{
				"/types", "/types?extra_specs=" + url.QueryEscape(`{"multiattach":"<is> True"}`), "/types?limit=1&sort=name", "/types?marker=" + id,
				"/types?extra_specs=" + url.QueryEscape(`{"volume_backend_name":"x"}`), "/types/" + id, "/types/" + id + "/extra_specs",
				"/types/" + id + "/extra_specs/multiattach", "/types/" + id + "/extra_specs/volume_backend_name", "/types/" + id + "/extra_specs/none",
			} {
				before := count.queries.Load()
				b.do(caller, "GET", path, "")
				require.EqualValues(t, 1, count.queries.Load()-before, "%s %s with %d types", caller, path, types)
			}
		}
	}
	require.Len(t, b.do(admin, "GET", "/types", "").names(), 312)
}

// P12: a sort key that is named a thousand times, in whatever direction, is compared once.
func TestP12SortKeysOfVolumeTypesCountOnce(t *testing.T) {
	t.Parallel()
	for query, want := range map[string][]string{
		"sort=name:asc,is_public,name,name:desc" + strings.Repeat(",name:asc,is_public:asc,name:desc", 1000): {"name", "is_public", "id"},
		"sort_key=name" + strings.Repeat("&sort_key=is_public&sort_key=name", 1000):                          {"name", "id"},
	} {
		q, err := url.ParseQuery(query)
		require.NoError(t, err)
		got, err := volume.SortKeys(q)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}
