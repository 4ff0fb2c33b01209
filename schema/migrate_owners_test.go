package schema_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"strongroom/schema"
	"strongroom/schema/schematest"
)

// old is what a database has before owners came: things in each state, on a host and at
// a service, and two events.
const old = `
INSERT INTO hosts (id, name, vcpus, memory_mb, disk_gb, last_seen) VALUES
    ('00000000-0000-4000-8000-00000000000a', 'h1', 1, 1, 1, now()), ('00000000-0000-4000-8000-00000000000b', 'h2', 1, 1, 1, now());
INSERT INTO servers (id, project_id, user_id, name, hostname, reservation_id, vm_state, flavor, host_id) VALUES
    ('00000000-0000-4000-8000-000000000001', 'p', 'u', 'vm', 'vm', 'r', 'active', '{}', '00000000-0000-4000-8000-00000000000a');
INSERT INTO claims (server_id, host_id, operation_id, vcpus, memory_mb, disk_gb) VALUES
    ('00000000-0000-4000-8000-000000000001', '00000000-0000-4000-8000-00000000000a', 'req-1', 1, 1, 1);
INSERT INTO operations (id, server_id, kind, project_id, user_id, credential_id) VALUES
    ('req-1', '00000000-0000-4000-8000-000000000001', 'create', 'p', 'u', '00000000-0000-4000-8000-0000000000cc');
INSERT INTO operation_events (operation_id, event, started_at, host_id) VALUES
    ('req-1', 'a', now(), NULL), ('req-1', 'b', now(), '00000000-0000-4000-8000-00000000000a');
INSERT INTO ledger (id, kind, place, name, server_id, operation_id, credential_id, project_id, user_id, state, refused, try_at)
SELECT gen_random_uuid(), kind, place, kind || state, '00000000-0000-4000-8000-000000000001', 'req-1',
    '00000000-0000-4000-8000-0000000000cc', 'p', 'u', state, refused, CASE WHEN state = 'waiting' THEN now() END
FROM (VALUES ('disk_file', '00000000-0000-4000-8000-00000000000a', 'present', NULL), ('image', 'image-store', 'given', NULL),
    ('key_secret', 'key-manager', 'waiting', 'no credential'), ('cached_image', '00000000-0000-4000-8000-00000000000a', 'waiting', 'silent'),
    ('trust', 'identity', 'released', NULL)) t (kind, place, state, refused);`

// Owners and blockers come with a migration that keeps what is there, both ways.
func TestOwnersGoUpAndDown(t *testing.T) {
	t.Parallel()
	pool := schematest.Empty(t)
	ctx := context.Background()
	require.NoError(t, schema.Migrate(ctx, pool))
	require.NoError(t, schema.Revert(ctx, pool, 8))
	exec(t, pool, old)
	before := texts(t, pool, "SELECT (kind, place, name, server_id, state, refused)::text FROM ledger ORDER BY 1")

	require.NoError(t, schema.Migrate(ctx, pool))
	require.Equal(t, []string{
		"(cached_image,00000000-0000-4000-8000-00000000000a,waiting,host,silent,server)",
		"(disk_file,00000000-0000-4000-8000-00000000000a,present,\"\",\"\",server)",
		"(image,,handed_over,\"\",\"\",server)",
		"(key_secret,,waiting,credential,\"no credential\",server)",
		"(trust,,released,\"\",\"\",server)",
	}, texts(t, pool, "SELECT (kind, host_id, state, blocked_by, reason, owner_kind)::text FROM ledger ORDER BY 1"))
	require.Equal(t, []string{"00000000-0000-4000-8000-000000000001"}, texts(t, pool, "SELECT DISTINCT owner_id::text FROM ledger"))

	// What an older release has no room for.
	exec(t, pool, `
INSERT INTO ledger (id, kind, place, name, owner_kind, owner_id, operation_id, credential_id, project_id, user_id)
    VALUES (gen_random_uuid(), 'share', 'shares', 's', 'share', gen_random_uuid(), 'req-2', gen_random_uuid(), 'p', 'u');
INSERT INTO claims (server_id, host_id, operation_id, vcpus, memory_mb, disk_gb) VALUES
    ('00000000-0000-4000-8000-000000000001', '00000000-0000-4000-8000-00000000000b', 'req-2', 1, 1, 1);
INSERT INTO operation_events (operation_id, event, started_at, host_id) VALUES ('req-1', 'b', now(), '00000000-0000-4000-8000-00000000000b');
INSERT INTO operations (id, subject_kind, subject_id, kind, project_id, user_id, credential_id)
    VALUES ('req-2', 'host', gen_random_uuid(), 'drain', 'p', 'u', gen_random_uuid());
INSERT INTO operation_events (operation_id, event, started_at) VALUES ('req-2', 'a', now());
INSERT INTO audits VALUES (gen_random_uuid(), now());`)
	require.NoError(t, schema.Revert(ctx, pool, 8))
	require.Equal(t, before, texts(t, pool, "SELECT (kind, place, name, server_id, state, refused)::text FROM ledger ORDER BY 1"))
	require.Equal(t, []string{"00000000-0000-4000-8000-00000000000a"}, texts(t, pool, "SELECT host_id::text FROM claims"), "where the server is")
	require.Equal(t, []string{"req-1 a", "req-1 b"}, texts(t, pool, "SELECT operation_id || ' ' || event FROM operation_events ORDER BY 1"))
	require.NoError(t, schema.Migrate(ctx, pool))
}

// A waiting thing waits for something, and knows when it is tried.
func TestWhatWaitsHasABlocker(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	for _, values := range []string{"'waiting', '', now()", "'waiting', 'host', NULL", "'present', 'host', now()"} {
		_, err := pool.Exec(t.Context(), `INSERT INTO ledger
			(id, kind, place, name, owner_kind, owner_id, operation_id, credential_id, project_id, user_id, state, blocked_by, try_at)
			VALUES ($1, 'image', 'image-store', 'i', 'server', $1, 'req-1', $1, 'p', 'u', `+values+`)`, uuid.New())
		require.ErrorContains(t, err, "violates check constraint", values)
	}
}

func exec(t *testing.T, pool *pgxpool.Pool, statements string) {
	t.Helper()
	for statement := range strings.SplitSeq(strings.TrimRight(strings.TrimSpace(statements), ";"), ";\n") {
		_, err := pool.Exec(t.Context(), statement)
		require.NoError(t, err, statement)
	}
}

func texts(t *testing.T, pool *pgxpool.Pool, query string) []string {
	t.Helper()
	rows, err := pool.Query(t.Context(), query)
	require.NoError(t, err)
	defer rows.Close()
	var out []string
	for rows.Next() {
		var text string
		require.NoError(t, rows.Scan(&text))
		out = append(out, text)
	}
	require.NoError(t, rows.Err())
	return out
}
