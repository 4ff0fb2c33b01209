package operation_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/activities/record"
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

// A server that something unforeseen refers to holds up none of the others, is named, and
// is not tried again at each pass.
func TestLowAServerThatCannotBePurgedHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var ids []compute.ServerID
	for range 3 {
		id := b.server()
		b.exec(`UPDATE servers SET vm_state = 'deleted', deleted_at = now() - interval '91 days' WHERE id = $1`, id)
		ids = append(ids, id)
	}
	b.exec(`CREATE TABLE unforeseen (server_id uuid REFERENCES servers (id))`)
	b.exec(`INSERT INTO unforeseen VALUES ($1)`, ids[1])
	const retention = 90 * 24 * time.Hour
	purged, err := b.Record.Purge(t.Context(), retention)
	require.ErrorContains(t, err, "server "+ids[1].String())
	require.ErrorContains(t, err, "unforeseen")
	require.Equal(t, 2, purged)
	for i, id := range ids {
		_, err := b.q.GetServer(t.Context(), id)
		require.Equal(t, i == 1, err == nil)
	}
	purged, err = b.Record.Purge(t.Context(), retention)
	require.NoError(t, err, "it is left out for an hour")
	require.Zero(t, purged)
	b.exec(`DROP TABLE unforeseen`)
	purged, err = (&record.Activities{Pool: b.Pool}).Purge(t.Context(), retention)
	require.NoError(t, err)
	require.Equal(t, 1, purged)
}
