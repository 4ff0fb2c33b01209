package schema_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"strongroom/schema"
	"strongroom/schema/schematest"
)

// M7: migration 12 meets MAC addresses that several servers have. The oldest of them that
// lives has the row, a server keeps its other addresses, those of deleted servers are free,
// and what deleted servers were given as user data is gone. Back and forth it is the same.
func TestM7DoubledAddressesMigrate(t *testing.T) {
	t.Parallel()
	pool := schematest.Empty(t)
	require.NoError(t, schema.MigrateTo(t.Context(), pool, 11))
	server := func(age, deleted, networks string) (id string) {
		id = uuid.NewString()
		_, err := pool.Exec(t.Context(), `INSERT INTO servers (id, project_id, user_id, name, hostname, reservation_id, vm_state, flavor, user_data, networks, created_at, deleted_at)
			VALUES ($1, 'p', 'u', 'vm', 'vm', 'r-1', 'active', '{}', 'dGV4dA==', $4, now() - $2::interval, now() - $3::interval)`,
			id, age, pgText(deleted), networks)
		require.NoError(t, err)
		return id
	}
	const shared, own, free = "52:54:00:00:00:01", "52:54:00:00:00:02", "52:54:00:00:00:03"
	younger := server("1 hour", "", `[{"uuid": "n", "mac": "`+shared+`"}, {"uuid": "n", "mac": "`+own+`"}, {"uuid": "n"}]`)
	older := server("2 hours", "", `[{"uuid": "n", "mac": "`+shared+`"}, {"uuid": "n", "mac": "`+shared+`"}]`)
	gone := server("3 hours", "1 hour", `[{"uuid": "n", "mac": "`+shared+`"}, {"uuid": "n", "mac": "`+free+`"}]`)
	none := server("4 hours", "", `[]`)

	want := map[string]string{shared: older, own: younger}
	for range 2 {
		require.NoError(t, schema.MigrateTo(t.Context(), pool, 12))
		require.Equal(t, want, pairs(t, pool, "SELECT mac, server_id::text FROM server_macs"))
		require.Equal(t, map[string]string{younger: "dGV4dA==", older: "dGV4dA==", gone: "", none: "dGV4dA=="},
			pairs(t, pool, "SELECT id::text, coalesce(user_data, '') FROM servers"))
		require.NoError(t, schema.Revert(t.Context(), pool, 11))
	}
}

// Migration 15 removes user data from rebuilds that have ended, and from nothing else.
func TestLowUserDataOfEndedRebuildsGo(t *testing.T) {
	t.Parallel()
	pool := schematest.Empty(t)
	require.NoError(t, schema.MigrateTo(t.Context(), pool, 14))
	const given = `{"image": {"id": "i"}, "change": {"name": "x", "user_data": {"set": true, "text": "dGV4dA=="}}}`
	server := uuid.NewString()
	_, err := pool.Exec(t.Context(), `INSERT INTO servers (id, project_id, user_id, name, hostname, reservation_id, vm_state, flavor)
		VALUES ($1, 'p', 'u', 'vm', 'vm', 'r-1', 'active', '{}')`, server)
	require.NoError(t, err)
	for id, state := range map[string]string{"req-ended": "succeeded", "req-failed": "failed", "req-runs": "running", "req-waits": "accepted"} {
		_, err := pool.Exec(t.Context(), `INSERT INTO operations (id, server_id, kind, project_id, user_id, credential_id, arguments, state)
			VALUES ($1, $2, 'rebuild', 'p', 'u', $2, $3, $4)`, id, server, given, state)
		require.NoError(t, err)
	}
	for range 2 {
		require.NoError(t, schema.MigrateTo(t.Context(), pool, 15))
		require.Equal(t, map[string]string{"req-ended": "x ", "req-failed": "x ", "req-runs": "x dGV4dA==", "req-waits": "x dGV4dA=="},
			pairs(t, pool, "SELECT id, (arguments #>> '{change,name}') || ' ' || coalesce(arguments #>> '{change,user_data,text}', '') FROM operations"))
		require.NoError(t, schema.Revert(t.Context(), pool, 14))
	}
}

func pgText(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func pairs(t *testing.T, pool *pgxpool.Pool, query string) map[string]string {
	t.Helper()
	rows, err := pool.Query(t.Context(), query)
	require.NoError(t, err)
	out := map[string]string{}
	for rows.Next() {
		var key, value string
		require.NoError(t, rows.Scan(&key, &value))
		out[key] = value
	}
	require.NoError(t, rows.Err())
	return out
}

// S1: migration 50 meets disks of sizes that no host makes. Their rows can be changed, so that their servers can be deleted, and no other gets such a size.
func TestS1DisksOfNoSizeMigrate(t *testing.T) {
	t.Parallel()
	pool := schematest.Empty(t)
	require.NoError(t, schema.MigrateTo(t.Context(), pool, 49))
	server := uuid.NewString()
	_, err := pool.Exec(t.Context(), `INSERT INTO servers (id, project_id, user_id, name, hostname, reservation_id, vm_state, flavor) VALUES ($1, 'p', 'u', 'vm', 'vm', 'r-1', 'error', '{}')`, server)
	require.NoError(t, err)
	insert := func(role string, size int64) error {
		_, err := pool.Exec(t.Context(), `INSERT INTO server_disks (id, server_id, role, device_name, size_mb) VALUES (gen_random_uuid(), $1, $2, 'vda', $3)`, server, role, size)
		return err
	}
	for role, size := range map[string]int64{"root": 1024, "swap": -5120, "ephemeral": 1 << 60} {
		require.NoError(t, insert(role, size))
	}
	require.NoError(t, schema.MigrateTo(t.Context(), pool, 50))
	require.Equal(t, map[string]string{"root": "1024", "swap": "0", "ephemeral": "2199023254528"}, pairs(t, pool, "SELECT role, size_mb::text FROM server_disks"))
	_, err = pool.Exec(t.Context(), "UPDATE server_disks SET encryption_secret_uuid = NULL")
	require.NoError(t, err)
	for _, size := range []int64{-1, 2199023254529} {
		require.ErrorContains(t, insert("another", size), "server_disks_size")
	}
}
