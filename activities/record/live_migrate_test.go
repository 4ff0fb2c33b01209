package record_test

import (
	"log/slog"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/ledger"
	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/schema"
	"strongroom/worker/gateway"
)

// TPM-20: a server that has moved with its guest is on its new host, as it was, with the claim there
// alone; that may be written twice. Its migration says how far it is, and how it ended.
func TestLiveMigrated(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]struct {
		state compute.OperationState
		wish  string
		is    string
		moved bool
	}{
		"moved":              {compute.OperationSucceeded, "", "completed", true},
		"moved, then lost":   {compute.OperationCancelled, "", "completed", true}, // a delete, say, took the server
		"moved, not aborted": {compute.OperationFailed, "abort", "completed", true},
		"failed":             {compute.OperationFailed, "", "failed", false},
		"aborted":            {compute.OperationFailed, "abort", "cancelled", false},
		"cancelled":          {compute.OperationCancelled, "", "cancelled", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			from, to := b.Host("a", 4, 4096), b.Host("b", 4, 4096)
			first := b.server(compute.OpCreate)
			b.Exec("UPDATE servers SET host_id = $2, vm_state = 'paused', disk_config = 'MANUAL' WHERE id = $1", first.Server, from)
			in := b.supersede(first, compute.OpLiveMigrate, compute.LiveMigrateArguments{})
			for host, op := range map[any]compute.OperationID{from: first.Operation, to: in.Operation} {
				b.Exec("INSERT INTO claims (server_id, host_id, operation_id, vcpus, memory_mb, disk_gb) VALUES ($1, $2, $3, 1, 1, 1)", in.Server, host, op)
			}
			was, err := schema.LoadServer(b.ctx, b.q, in.Server)
			require.NoError(t, err)
			status := func() string {
				rows, err := b.q.ListMigrations(b.ctx, schema.ListMigrationsParams{Most: 10})
				require.NoError(t, err)
				require.Len(t, rows, 1)
				return rows[0].Status
			}
			dest := compute.HostID{UUID: uuid.MustParse(to.String())}
			_, err = b.Advance(b.ctx, record.AdvanceInput{OperationInput: in, Migration: &record.Migration{Type: record.TypeLiveMigration, To: dest, Flavor: was.Flavor.ID}})
			require.NoError(t, err)
			require.Equal(t, "preparing", status())
			task := compute.TaskMigrating
			_, err = b.Advance(b.ctx, record.AdvanceInput{OperationInput: in, Task: &task})
			require.NoError(t, err)
			require.Equal(t, "running", status())
			b.Exec("UPDATE migrations SET wish = $1", end.wish)
			settle := record.SettleInput{OperationInput: in, State: end.state, VMState: compute.VMPaused, Power: compute.PowerPaused}
			host := *was.Host
			if end.moved {
				host, settle.Moved = dest, end.state == compute.OperationSucceeded
				will := was
				will.Host = &dest
				for range 2 {
					require.NoError(t, b.LiveMigrated(b.ctx, record.LiveMigratedInput{OperationInput: in, To: will}))
				}
				require.Equal(t, "post-migrating", status())
				claims := 0
				require.NoError(t, b.Pool.QueryRow(b.ctx, "SELECT count(*) FROM claims WHERE host_id = $1", dest).Scan(&claims))
				require.Equal(t, 1, claims)
				require.NoError(t, b.Pool.QueryRow(b.ctx, "SELECT count(*) FROM claims").Scan(&claims))
				require.Equal(t, 1, claims)
			}
			for range 2 {
				require.NoError(t, b.Settle(b.ctx, settle))
			}
			require.Equal(t, end.is, status())
			now, err := schema.LoadServer(b.ctx, b.q, in.Server)
			require.NoError(t, err)
			require.Nil(t, now.Former)
			require.Equal(t, []any{host, was.Flavor, was.Disks, was.TPM, compute.VMPaused}, []any{*now.Host, now.Flavor, now.Disks, now.TPM, now.VMState})
		})
	}
}

// The new host of a live migration counts as one that does not run the guest once it is silent and forced
// down, and no sooner. From then on it is told so, as long as it has something of the server, and keeps the server from
// nothing.
func TestNoteFenced(t *testing.T) {
	t.Parallel()
	b := setup(t)
	from, to := b.Host("a", 4, 4096), b.Host("b", 4, 4096)
	first := b.server(compute.OpCreate)
	b.Exec("UPDATE servers SET host_id = $2, vm_state = 'active' WHERE id = $1", first.Server, from)
	in := b.supersede(first, compute.OpLiveMigrate, compute.LiveMigrateArguments{})
	b.Exec("UPDATE operations SET state = 'running' WHERE id = $1", in.Operation)
	move := compute.Operation{ID: in.Operation, ServerID: in.Server, Credential: compute.Credential{ProjectID: "p1", UserID: "u1"}}
	there := move.Thing(compute.ThingRunningDomain, to.String(), compute.InstanceName(in.Server))
	_, err := b.Advance(b.ctx, record.AdvanceInput{
		OperationInput: in, Migration: &record.Migration{Type: record.TypeLiveMigration, To: to, Flavor: "f"},
		Open: &record.Open{Event: "live_migrate", Things: []compute.Thing{there}},
	})
	require.NoError(t, err)
	told := func(host compute.HostID) (out []compute.ServerID) {
		servers, err := gateway.Records{Pool: b.Pool, Host: host, Logger: slog.New(slog.DiscardHandler)}.Evacuated(b.ctx)
		require.NoError(t, err)
		for _, s := range servers {
			out = append(out, s.Server)
		}
		return out
	}
	note := record.NoteFencedInput{OperationInput: in, Host: to}
	for _, is := range []string{"forced_down = false, last_seen = now()", "forced_down = true, last_seen = now()", "forced_down = false, last_seen = now() - interval '1 hour'"} {
		b.Exec("UPDATE hosts SET " + is + " WHERE name = 'b'")
		require.Equal(t, compute.Conflict, compute.KindOf(b.NoteFenced(b.ctx, note)), is)
		require.Empty(t, told(to))
	}
	require.True(t, compute.Is(schema.RunsHere(b.ctx, b.q, in.Server), compute.Conflict))
	b.Exec("UPDATE hosts SET forced_down = true, last_seen = now() - interval '1 hour' WHERE name = 'b'")
	for range 2 {
		require.NoError(t, b.NoteFenced(b.ctx, note))
	}
	require.Equal(t, []compute.ServerID{in.Server}, told(to))
	require.Empty(t, told(from))
	there = there.Waits(compute.BlockedByHost, "its host does not answer")
	_, err = b.Advance(b.ctx, record.AdvanceInput{OperationInput: in, Close: &record.Close{Event: "live_migrate", Waiting: []compute.Thing{there}}})
	require.NoError(t, err)
	require.NoError(t, b.Settle(b.ctx, record.SettleInput{OperationInput: in, State: compute.OperationFailed, VMState: compute.VMActive}))
	require.NoError(t, schema.RunsHere(b.ctx, b.q, in.Server))
	require.Equal(t, []compute.ServerID{in.Server}, told(to), "it has something of the server")
	require.NoError(t, (&ledger.Activities{Pool: b.Pool}).Reaped(b.ctx, ledger.ReapedInput{Released: []compute.Thing{there}}))
	require.Empty(t, told(to))
}

// A host that was counted as one that does not run a guest, but was back before that was acted on and said that it
// does, keeps it once the server is on record as there.
func TestAFencedHostThatTheServerCameToKeepsIt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	from, to := b.Host("a", 4, 4096), b.Host("b", 4, 4096)
	first := b.server(compute.OpCreate)
	b.Exec("UPDATE servers SET host_id = $2, vm_state = 'active' WHERE id = $1", first.Server, from)
	in := b.supersede(first, compute.OpLiveMigrate, compute.LiveMigrateArguments{})
	b.Exec("UPDATE operations SET state = 'running' WHERE id = $1", in.Operation)
	_, err := b.Advance(b.ctx, record.AdvanceInput{OperationInput: in, Migration: &record.Migration{Type: record.TypeLiveMigration, To: to, Flavor: "f"}})
	require.NoError(t, err)
	told := func() int {
		servers, err := gateway.Records{Pool: b.Pool, Host: to, Logger: slog.New(slog.DiscardHandler)}.Evacuated(b.ctx)
		require.NoError(t, err)
		return len(servers)
	}
	b.Exec("UPDATE hosts SET forced_down = true, last_seen = now() - interval '1 hour' WHERE name = 'b'")
	require.NoError(t, b.NoteFenced(b.ctx, record.NoteFencedInput{OperationInput: in, Host: to}))
	require.Equal(t, 1, told())
	will, err := schema.LoadServer(b.ctx, b.q, in.Server)
	require.NoError(t, err)
	will.Host = &to
	require.NoError(t, b.LiveMigrated(b.ctx, record.LiveMigratedInput{OperationInput: in, To: will}))
	require.Zero(t, told())
	require.NoError(t, b.Settle(b.ctx, record.SettleInput{OperationInput: in, State: compute.OperationSucceeded, VMState: compute.VMActive, Moved: true}))
	require.Zero(t, told())
}
