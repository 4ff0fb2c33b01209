package record_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/schema"
)

// noted notes the last query.
type noted struct {
	schema.DBTX
	text string
	args []any
}

func (n *noted) Query(ctx context.Context, text string, args ...any) (pgx.Rows, error) {
	n.text, n.args = text, args
	return n.DBTX.Query(ctx, text, args...)
}

// node is a node of a plan that PostgreSQL carried out.
type node struct {
	Table   string  `json:"Relation Name"`
	Rows    float64 `json:"Actual Rows"`
	Loops   float64 `json:"Actual Loops"`
	Removed float64 `json:"Rows Removed by Filter"`
	Plans   []node
}

// read is how many rows of servers were read.
func (n node) read() (rows float64) {
	if n.Table == "servers" {
		rows = (n.Rows + n.Removed) * n.Loops
	}
	for _, below := range n.Plans {
		rows += below.read()
	}
	return rows
}

// The search for backups that are due reads those, and not all servers: it is made every few seconds.
func TestDueTPMBackupsReadsWhatIsDue(t *testing.T) {
	t.Parallel()
	b := setup(t)
	host := b.Host("a", 64, 65536)
	b.Exec(`INSERT INTO servers (id, project_id, user_id, name, hostname, reservation_id, vm_state, flavor, host_id, tpm, tpm_backup, tpm_backup_begun_at)
		SELECT gen_random_uuid(), 'p', 'u', 'vm', 'vm', 'r', CASE n % 3 WHEN 0 THEN 'stopped' ELSE 'active' END, '{}', $1,
			CASE n % 10 WHEN 1 THEN NULL ELSE '{"security": "host"}'::jsonb END, CASE n % 3 WHEN 0 THEN '{"final": true}'::jsonb END,
			CASE WHEN n > 9990 THEN NULL WHEN n % 3 = 0 THEN now() - interval '1 year' ELSE now() END
		FROM generate_series(1, 10000) n`, host)
	b.Exec("ANALYZE servers")
	db := &noted{DBTX: b.Pool}
	due, err := schema.New(db).DueTPMBackups(b.ctx, schema.DueTPMBackupsParams{Every: 3600, HostTimeout: compute.HostTimeout.Seconds(), PerHost: 50, Most: 50})
	require.NoError(t, err)
	require.NotEmpty(t, due)
	require.LessOrEqual(t, len(due), 10)
	var text []byte
	require.NoError(t, b.Pool.QueryRow(b.ctx, "EXPLAIN (ANALYZE, FORMAT JSON) "+db.text, db.args...).Scan(&text))
	var plans []struct{ Plan node }
	require.NoError(t, json.Unmarshal(text, &plans))
	require.NotZero(t, plans[0].Plan.read(), string(text))
	require.LessOrEqual(t, plans[0].Plan.read(), 100.0, string(text))
}
