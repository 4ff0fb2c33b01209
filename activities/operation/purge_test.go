package operation_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/schema"
)

// TestLowDeletedServersArePurged: what the database knows of a deleted server goes after a time,
// unless something of it still waits to be removed.
func TestLowDeletedServersArePurged(t *testing.T) {
	t.Parallel()
	b := setup(t)
	deleted := func(ago string) compute.ServerID {
		id := b.server()
		op := b.operation(id, compute.OpDelete)
		b.exec(`UPDATE operations SET state = 'succeeded' WHERE id = $1`, op.ID)
		b.exec(`INSERT INTO operation_events (operation_id, event, started_at) VALUES ($1, 'delete', now())`, op.ID)
		b.exec(`INSERT INTO server_system_metadata (server_id, key, value) VALUES ($1, 'k', 'v')`, id)
		b.exec(`INSERT INTO server_macs (mac, server_id) VALUES ($1, $2)`, id.String(), id)
		b.exec(`UPDATE servers SET vm_state = 'deleted', deleted_at = now() - $1::interval WHERE id = $2`, ago, id)
		return id
	}
	old, young, waits, living := deleted("91 days"), deleted("89 days"), deleted("91 days"), b.server()
	b.exec(`INSERT INTO ledger (id, kind, place, name, owner_kind, owner_id, operation_id, credential_id, project_id, user_id, state, blocked_by, try_at)
		VALUES (gen_random_uuid(), 'disk_file', 'h', 'n', 'server', $1, 'req-1', gen_random_uuid(), 'p', 'u', 'waiting', 'host', now())`, waits)

	purge := func(retention time.Duration, want int) {
		t.Helper()
		got, err := b.Record.Purge(t.Context(), retention)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	const days = 24 * time.Hour
	purge(0, 0) // without a time all are kept
	purge(90*days, 1)
	purge(90*days, 0)
	_, err := b.q.GetServer(t.Context(), old)
	require.Error(t, err)
	for _, id := range []compute.ServerID{young, waits, living} {
		_, err := b.q.GetServer(t.Context(), id)
		require.NoError(t, err)
	}
	left, err := b.q.ServerOperations(t.Context(), schema.ServerOperationsParams{ServerID: old, Most: 10})
	require.NoError(t, err)
	require.Empty(t, left)
}
