package gateway_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/schema/schematest"
)

// A host lets another one move a running server to it for as long as an operation is about to run
// it there, and the other one has it and a good certificate.
func TestAnArrivalHasATicket(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	from, to, thief := c.enrolled("from"), c.enrolled("to"), c.enrolled("thief")
	op := from.server()
	ask := func(at, by *host, of compute.Arrival) compute.Kind {
		return compute.KindOf(at.client.GrantsArrival(c.Ctx, of, by.got.Cert))
	}
	of := compute.Arrival{Server: op.ServerID, Operation: op.ID}
	require.Equal(t, compute.Forbidden, ask(to, from, of), "it does not come there")
	c.Exec(`INSERT INTO ledger (id, kind, place, name, reference, owner_kind, owner_id, operation_id, credential_id, project_id, user_id, state)
		VALUES (gen_random_uuid(), 'running_domain', $1::text, $2, '', 'server', $3, $4, $5, 'p', 'u', 'intended')`,
		to.id.String(), compute.InstanceName(op.ServerID), op.ServerID, op.ID, schematest.Owner.ID)
	require.Empty(t, ask(to, from, of))
	other := of
	other.Server.UUID[0]++
	for what, kind := range map[string]compute.Kind{
		"another host sends":  ask(to, thief, of),
		"to another host":     ask(thief, from, of),
		"the other way":       ask(from, to, of),
		"another operation":   ask(to, from, compute.Arrival{Server: op.ServerID, Operation: "req-before"}),
		"another server":      ask(to, from, other),
		"a host to itself":    ask(from, from, of),
		"the one it comes to": ask(to, to, of),
	} {
		require.Equal(t, compute.Forbidden, kind, what)
	}
	c.Exec("UPDATE ledger SET state = 'released' WHERE operation_id = $1", op.ID)
	require.Equal(t, compute.Forbidden, ask(to, from, of), "the step has ended")
	c.Exec("UPDATE ledger SET state = 'intended' WHERE operation_id = $1", op.ID)
	c.Exec("UPDATE host_certificates SET revoked_at = now() WHERE host_id = $1", from.id.UUID)
	require.Equal(t, compute.Forbidden, ask(to, from, of), "its certificate was revoked")
	c.Exec("UPDATE host_certificates SET revoked_at = NULL")
	c.Exec("UPDATE operations SET state = 'failed' WHERE id = $1", op.ID)
	require.Equal(t, compute.Forbidden, ask(to, from, of), "the operation has ended")
}

// The host that a running server leaves says how far that is, and learns what is wished of it; no other
// host does.
func TestADepartureIsReported(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	from, to := c.enrolled("from"), c.enrolled("to")
	op := from.server()
	of := compute.Arrival{Server: op.ServerID, Operation: op.ID}
	at := compute.MigrationBytes{MemoryTotal: 6, MemoryRemaining: 5, MemoryProcessed: 4, DiskTotal: 3, DiskRemaining: 2, DiskProcessed: 1}
	_, err := from.client.MigrationAt(c.Ctx, of, at)
	require.Equal(t, compute.Forbidden, compute.KindOf(err), "there is none: %v", err)
	c.Exec(`INSERT INTO migrations (uuid, operation_id, server_id, type, status, source, destination, old_flavor, new_flavor, project_id, user_id, wish)
		VALUES (gen_random_uuid(), $1, $2, 'live-migration', 'running', 'from', 'to', '1', '1', 'p', 'u', 'abort')`, op.ID, op.ServerID)
	wish, err := from.client.MigrationAt(c.Ctx, of, at)
	require.NoError(t, err)
	require.Equal(t, compute.WishAbort, wish)
	var sum int64
	require.NoError(t, c.DB.QueryRow(c.Ctx, `SELECT memory_total*100000 + memory_remaining*10000 + memory_processed*1000 + disk_total*100
		+ disk_remaining*10 + disk_processed FROM migrations`).Scan(&sum))
	require.EqualValues(t, 654321, sum)
	_, err = to.client.MigrationAt(c.Ctx, of, compute.MigrationBytes{})
	require.Equal(t, compute.Forbidden, compute.KindOf(err), "%v", err)
	c.Exec("UPDATE operations SET state = 'failed' WHERE id = $1", op.ID)
	_, err = from.client.MigrationAt(c.Ctx, of, compute.MigrationBytes{})
	require.Equal(t, compute.Forbidden, compute.KindOf(err), "%v", err)
}
