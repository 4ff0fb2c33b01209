package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"strongroom/api"
)

// searches notes the last search for a page of servers.
type searches struct {
	mu   sync.Mutex
	text string
	args []any
}

func (s *searches) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	if strings.HasPrefix(data.SQL, "SELECT s.id, s.name FROM servers") {
		s.text, s.args = data.SQL, data.Args
	}
	return ctx
}

// note has an API's searches be noted.
func (s *searches) note(t *testing.T) func(*api.Config) {
	return func(config *api.Config) {
		traced := config.Pool.Config()
		traced.ConnConfig.Tracer = s
		pool, err := pgxpool.NewWithConfig(t.Context(), traced)
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		config.Pool = pool
	}
}

func (s *searches) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// plan is a node of a plan that PostgreSQL carried out.
type plan struct {
	Node    string  `json:"Node Type"`
	Table   string  `json:"Relation Name"`
	Rows    float64 `json:"Actual Rows"`
	Loops   float64 `json:"Actual Loops"`
	Removed float64 `json:"Rows Removed by Filter"`
	Plans   []plan
}

// read is how many rows of servers were read.
func (p plan) read() (rows float64) {
	if p.Table == "servers" {
		rows = (p.Rows + p.Removed) * p.Loops
	}
	for _, child := range p.Plans {
		rows += child.read()
	}
	return rows
}

// P24: a page reads what it shows, in a cloud of ten thousand servers as in one of ten.
func TestP24APageReadsWhatItShows(t *testing.T) {
	t.Parallel()
	noted := &searches{}
	c := setupCloud(t, noted.note(t))
	c.create(nil)
	c.exec(`INSERT INTO servers (id, project_id, user_id, name, hostname, reservation_id, vm_state, flavor, created_at)
		SELECT gen_random_uuid(), CASE n % 5 WHEN 0 THEN $1 ELSE $2 END, 'u', 'vm-' || n * 7919 % 10007, 'vm', 'r', 'active', '{}', '2026-01-01'::timestamptz + n / 3 * interval '1 second'
		FROM generate_series(1, 10000) n`, elsewhere, project)
	c.exec(`ANALYZE servers`)
	for _, query := range []string{
		"", "sort_key=created_at&sort_dir=asc", "sort_key=display_name&sort_dir=asc", "sort_key=display_name&sort_dir=desc",
		"all_tenants=1", "all_tenants=1&sort_key=display_name&sort_dir=asc",
		"name=" + url.QueryEscape("[0-8]$"), "name=" + url.QueryEscape("[0-8]$") + "&sort_key=display_name&sort_dir=asc",
	} {
		marker, seen := "", map[string]bool{}
		for page := range 3 {
			a := c.do(t, admin, "GET", "/servers?limit=50&"+query+marker, "").ok(200)
			ids := a.get("servers").([]any)
			require.Len(t, ids, 50)
			for i := range ids {
				id := a.get("servers", i, "id").(string)
				require.False(t, seen[id], "%q: %s is on two pages", query, id)
				seen[id] = true
			}
			marker = fmt.Sprintf("&marker=%s", a.get("servers", 49, "id"))
			require.LessOrEqual(t, noted.cost(t, c.pool), 100.0, "%q, page %d: %s", query, page, noted.text)
		}
		deep := c.text(`SELECT id::text FROM servers WHERE project_id = $1 ORDER BY created_at, name LIMIT 1 OFFSET 4000`, project)
		c.do(t, admin, "GET", "/servers?limit=50&"+query+"&marker="+deep, "").ok(200)
		require.LessOrEqual(t, noted.cost(t, c.pool), 100.0, "%q, far behind: %s", query, noted.text)
	}
}

// cost carries the noted search out again and gives how many rows it read.
func (s *searches) cost(t *testing.T, pool *pgxpool.Pool) float64 {
	t.Helper()
	var text []byte
	require.NoError(t, pool.QueryRow(t.Context(), "EXPLAIN (ANALYZE, FORMAT JSON) "+s.text, s.args...).Scan(&text))
	var plans []struct{ Plan plan }
	require.NoError(t, json.Unmarshal(text, &plans))
	require.NotZero(t, plans[0].Plan.read(), string(text))
	return plans[0].Plan.read()
}
