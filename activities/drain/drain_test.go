package drain_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/drain"
	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema"
	"strongroom/schema/schematest"
)

// bundle is a database with two hosts, of which the first is drained.
type bundle struct {
	*drain.Activities
	*schematest.Fixture
	t    *testing.T
	host durable.Host
	away compute.HostID

	mu       sync.Mutex
	launched []compute.OperationID
}

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{Fixture: schematest.NewFixture(t), t: t}
	b.Activities = &drain.Activities{Pool: b.DB, Launcher: b, Logger: slog.New(slog.DiscardHandler)}
	b.host = durable.Host{ID: b.Host("h1", 64, 1<<20), Name: "h1"}
	b.away = b.Host("h2", 64, 1<<20)
	return b
}

// Launch implements drain.Launcher.
func (b *bundle) Launch(_ context.Context, ops []compute.Operation) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, op := range ops {
		b.launched = append(b.launched, op.ID)
	}
}

// server adds a server at rest on the first host.
func (b *bundle) server(vm compute.VMState) compute.ServerID {
	b.t.Helper()
	op := b.Server(compute.OpCreate)
	b.Exec(`UPDATE servers SET vm_state = $2, task_state = '', current_operation = '', host_id = $3, launched_at = now() WHERE id = $1`, op.ServerID, vm, b.host.ID)
	b.Exec(`UPDATE operations SET state = 'succeeded' WHERE id = $1`, op.ID)
	b.claim(op.ServerID, b.host.ID, op.ID)
	return op.ServerID
}

func (b *bundle) claim(id compute.ServerID, host compute.HostID, op compute.OperationID) {
	b.Exec(`INSERT INTO claims (server_id, host_id, operation_id, vcpus, memory_mb, disk_gb) VALUES ($1, $2, $3, 1, 1, 1)`, id, host, op)
}

func (b *bundle) ask(in compute.DrainArguments) durable.OperationInput {
	b.t.Helper()
	op, begun, err := drain.Ask(b.Ctx, b.DB, b.host, in)
	require.NoError(b.t, err)
	require.True(b.t, begun)
	return durable.OperationInput{Operation: op.ID, Subject: op.Subject}
}

func (b *bundle) pass(in durable.OperationInput) bool {
	b.t.Helper()
	done, err := b.Pass(b.Ctx, in.Operation)
	require.NoError(b.t, err)
	return done
}

func (b *bundle) look() drain.Report {
	b.t.Helper()
	out, err := drain.Look(b.Ctx, b.DB, b.host)
	require.NoError(b.t, err)
	return out
}

// states are the states of the servers of the newest drain.
func (b *bundle) states() map[compute.ServerID]compute.DrainState {
	out := map[compute.ServerID]compute.DrainState{}
	for _, s := range b.look().Servers {
		out[s.ID] = s.State
	}
	return out
}

// row is the server's row.
func (b *bundle) row(id compute.ServerID) schema.Server {
	b.t.Helper()
	row, err := b.Q.GetServer(b.Ctx, id)
	require.NoError(b.t, err)
	return row
}

// moved does what a migrate does: the server is on the other host, until that is confirmed.
func (b *bundle) moved(id compute.ServerID) {
	b.t.Helper()
	op := b.row(id).CurrentOperation
	former, err := json.Marshal(compute.Former{Operation: op, Host: b.host.ID, VMState: compute.VMStopped})
	require.NoError(b.t, err)
	b.claim(id, b.away, op)
	b.Exec(`UPDATE servers SET vm_state = 'resized', task_state = '', current_operation = '', host_id = $2, former = $3 WHERE id = $1`, id, b.away, former)
	b.Exec(`UPDATE operations SET state = 'succeeded' WHERE id = $1`, op)
}

// confirmed does what a confirmation does.
func (b *bundle) confirmed(id compute.ServerID) {
	b.t.Helper()
	op := b.row(id).CurrentOperation
	b.Exec(`DELETE FROM claims WHERE server_id = $1 AND host_id = $2`, id, b.host.ID)
	b.Exec(`UPDATE servers SET vm_state = 'stopped', task_state = '', current_operation = '', former = NULL WHERE id = $1`, id)
	b.Exec(`UPDATE operations SET state = 'succeeded' WHERE id = $1`, op)
}

// failed does what an operation does that was undone.
func (b *bundle) failed(id compute.ServerID, vm compute.VMState, why string) {
	b.t.Helper()
	op := b.row(id).CurrentOperation
	b.Exec(`UPDATE servers SET vm_state = $2, task_state = '', current_operation = '' WHERE id = $1`, id, vm)
	b.Exec(`UPDATE operations SET state = 'failed', message = $2 WHERE id = $1`, op, why)
}

// toRemove notes that something of a server is still to be removed from a host.
func (b *bundle) toRemove(id compute.ServerID, name string, host compute.HostID) {
	b.t.Helper()
	b.Exec(`INSERT INTO ledger (id, kind, place, name, owner_kind, owner_id, operation_id, credential_id, project_id, user_id, state, blocked_by, try_at)
		VALUES (gen_random_uuid(), 'disk_file', $3::text, $2, 'server', $1, 'req-before', gen_random_uuid(), 'p', 'u', 'waiting', 'error', now())`, id, name, host.String())
}

// A drain moves servers a few at a time and confirms each, leaves what cannot be moved, and
// tells of each what became of it.
func TestDrain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first, rescued, second, third := b.server(compute.VMStopped), b.server(compute.VMRescued), b.server(compute.VMStopped), b.server(compute.VMStopped)
	in := b.ask(compute.DrainArguments{Concurrency: 2})
	host, err := b.Begin(b.Ctx, in)
	require.NoError(t, err)
	require.Equal(t, drain.BeginResult{Host: b.host}, host)
	reason := func() string { return b.disabledReason() }
	require.Equal(t, compute.DrainReason(in.Operation), reason())

	require.False(t, b.pass(in))
	require.False(t, b.pass(in), "nothing has changed")
	require.Equal(t, map[compute.ServerID]compute.DrainState{first: compute.DrainMoving, rescued: compute.DrainLeft, second: compute.DrainMoving}, b.states())
	require.Equal(t, 1, b.look().ToGo)
	require.Equal(t, compute.TaskResizePrep, b.row(first).TaskState)
	require.Equal(t, compute.TaskNone, b.row(rescued).TaskState)
	require.Len(t, b.launched, 2)
	op, err := b.Q.GetOperation(b.Ctx, b.row(first).CurrentOperation)
	require.NoError(t, err)
	require.Equal(t, compute.OpMigrate, op.Kind)
	require.Equal(t, compute.MemberCredential("p1"), op.Operation().Credential, "nobody's token")

	b.moved(first)
	b.failed(second, compute.VMStopped, compute.NoValidHost)
	require.False(t, b.pass(in))
	require.Equal(t, compute.TaskResizeConfirming, b.row(first).TaskState)
	b.confirmed(first)
	b.moved(third)
	require.False(t, b.pass(in))
	b.confirmed(third)
	require.True(t, b.pass(in))
	require.Equal(t, map[compute.ServerID]compute.DrainState{
		first: compute.DrainMoved, rescued: compute.DrainLeft, second: compute.DrainFailed, third: compute.DrainMoved,
	}, b.states())
	for _, s := range b.look().Servers {
		if s.ID == second {
			require.Equal(t, compute.NoValidHost, s.Reason)
		}
	}
	b.toRemove(first, "disk", b.host.ID)
	b.toRemove(first, "disk.swap", b.host.ID)
	b.toRemove(first, "disk elsewhere", b.away)
	b.toRemove(compute.ServerID{UUID: uuid.New()}, "disk of one that is deleted", b.host.ID)
	require.Equal(t, 3, b.look().ToRemove)
	for _, s := range b.look().Servers {
		if s.ID == first {
			require.Equal(t, []any{compute.DrainMoved, 2, "the host is still to remove 2 things of it"}, []any{s.State, s.ToRemove, s.Reason})
			continue
		}
		require.Zero(t, s.ToRemove)
	}
	for range 2 { // run again it gives the same
		end, err := b.End(b.Ctx, in)
		require.NoError(t, err)
		require.Equal(t, drain.EndResult{State: compute.OperationFailed, Message: "servers left: 2"}, end)
	}
	require.Equal(t, compute.DrainEnd(in.Operation, 2, false), reason())
	begun, err := b.Begin(b.Ctx, in)
	require.NoError(t, err)
	require.True(t, begun.Superseded)

	again := b.ask(compute.DrainArguments{Concurrency: 1, Cold: true})
	require.NotEqual(t, in.Operation, again.Operation)
	require.Equal(t, compute.DrainReason(again.Operation), reason(), "the earlier drain's reason goes")
	require.False(t, b.pass(again))
	require.Contains(t, b.states(), rescued, "each drain tries what is left")
}

// A server that runs and takes nobody's keys is moved while it does, with nothing to confirm; --cold restarts it.
func TestDrainOfServersThatRun(t *testing.T) {
	t.Parallel()
	for cold, kind := range map[bool]compute.OperationKind{false: compute.OpLiveMigrate, true: compute.OpMigrate} {
		b := setup(t)
		runs := b.server(compute.VMActive)
		b.Exec(`UPDATE servers SET tpm = NULL WHERE id = $1`, runs)
		b.Exec(`UPDATE server_disks SET encrypted = false, encryption_format = '' WHERE server_id = $1`, runs)
		in := b.ask(compute.DrainArguments{Concurrency: 1, Cold: cold})
		_, err := b.Begin(b.Ctx, in)
		require.NoError(t, err)
		require.False(t, b.pass(in))
		op, err := b.Q.GetOperation(b.Ctx, b.row(runs).CurrentOperation)
		require.NoError(t, err)
		require.Equal(t, kind, op.Kind)
		if cold {
			continue
		}
		b.Exec(`UPDATE claims SET host_id = $2 WHERE server_id = $1`, runs, b.away)
		b.Exec(`UPDATE servers SET task_state = '', current_operation = '', host_id = $2 WHERE id = $1`, runs, b.away)
		b.Exec(`UPDATE operations SET state = 'succeeded' WHERE id = $1`, op.ID)
		require.True(t, b.pass(in))
		require.Equal(t, map[compute.ServerID]compute.DrainState{runs: compute.DrainMoved}, b.states())
	}
}

func (b *bundle) disabledReason() string {
	b.t.Helper()
	var reason *string
	var disabled bool
	require.NoError(b.t, b.DB.QueryRow(b.Ctx, "SELECT disabled, disabled_reason FROM hosts WHERE id = $1", b.host.ID).Scan(&disabled, &reason))
	require.True(b.t, disabled)
	return *reason
}

// Passes at once, as after a worker that was taken for dead, move each server once and never more
// than the drain's concurrency says.
func TestPassesAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for range 6 {
		b.server(compute.VMStopped)
	}
	in := b.ask(compute.DrainArguments{Concurrency: 3})
	for _, err := range schematest.AtOnce(8, func(int) error { _, err := b.Pass(b.Ctx, in.Operation); return err }) {
		if err != nil {
			require.Equal(t, compute.Unavailable, compute.KindOf(err), "%v", err)
		}
	}
	require.Equal(t, 3, b.look().Count(compute.DrainMoving))
	require.Equal(t, 3, b.CountRows("SELECT count(*) FROM operations WHERE kind = 'migrate'"))
	require.Len(t, b.launched, 3)
	for id := range b.states() {
		b.moved(id)
	}
	for _, err := range schematest.AtOnce(8, func(int) error { _, err := b.Pass(b.Ctx, in.Operation); return err }) {
		if err != nil {
			require.Equal(t, compute.Unavailable, compute.KindOf(err), "%v", err)
		}
	}
	require.Equal(t, 3, b.CountRows("SELECT count(*) FROM operations WHERE kind = 'confirmResize'"))
	require.Equal(t, 3, b.look().Count(compute.DrainConfirming))
}

// A host has one drain at a time; asked for again, that one is shown. Cancelled, it begins
// nothing more and ends when what is under way has.
func TestOneDrainOfAHostThatIsCancelled(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first := b.server(compute.VMStopped)
	b.server(compute.VMStopped)
	in := b.ask(compute.DrainArguments{Concurrency: 1})
	for _, err := range schematest.AtOnce(4, func(int) error {
		op, begun, err := drain.Ask(b.Ctx, b.DB, b.host, compute.DrainArguments{Concurrency: 9})
		if err == nil && (begun || op.ID != in.Operation) {
			t.Errorf("%v is not %v", op, in.Operation)
		}
		return err
	}) {
		require.NoError(t, err)
	}
	require.ErrorContains(t, drain.Enable(b.Ctx, b.DB, b.host), "cancel that first")
	require.False(t, b.pass(in))
	require.NoError(t, drain.Stop(b.Ctx, b.DB, b.host))
	require.NoError(t, b.Cancel(b.Ctx, in))
	require.False(t, b.pass(in))
	b.moved(first)
	require.False(t, b.pass(in))
	b.confirmed(first)
	require.True(t, b.pass(in))
	end, err := b.End(b.Ctx, in)
	require.NoError(t, err)
	require.Equal(t, compute.OperationCancelled, end.State)
	require.Len(t, b.launched, 2)
	require.Equal(t, compute.Conflict, compute.KindOf(drain.Stop(b.Ctx, b.DB, b.host)))
	require.NoError(t, drain.Enable(b.Ctx, b.DB, b.host))
	require.Zero(t, b.CountRows("SELECT count(*) FROM hosts WHERE disabled OR disabled_reason IS NOT NULL"))
}

// Servers that others are at work on are waited for; one that is deleted meanwhile has left.
func TestDrainWaitsForOthers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	busy := b.server(compute.VMStopped)
	op := b.Supersede(busy, compute.OpStart, nil)
	in := b.ask(compute.DrainArguments{Concurrency: 1})
	require.False(t, b.pass(in))
	require.Empty(t, b.states())
	b.Exec("UPDATE servers SET current_operation = '' WHERE id = $1", busy)
	b.Exec("UPDATE operations SET state = 'succeeded' WHERE id = $1", op.ID)
	require.False(t, b.pass(in))
	require.Equal(t, compute.DrainMoving, b.states()[busy])

	child := b.row(busy).CurrentOperation
	b.Supersede(busy, compute.OpDelete, nil)
	b.Exec("UPDATE servers SET task_state = 'deleting' WHERE id = $1", busy)
	b.Exec("UPDATE operations SET state = 'cancelled' WHERE id = $1", child)
	require.False(t, b.pass(in), "the delete has not ended")
	b.Exec("UPDATE servers SET deleted_at = now(), task_state = '' WHERE id = $1", busy)
	b.Exec("DELETE FROM claims WHERE server_id = $1", busy)
	require.True(t, b.pass(in))
	require.Equal(t, compute.DrainMoved, b.states()[busy])
	end, err := b.End(b.Ctx, in)
	require.NoError(t, err)
	require.Equal(t, compute.OperationSucceeded, end.State)
}

// A host that does not answer is not drained, and nothing begins on one that falls silent. The
// operator's own reason stays.
func TestDrainOfASilentHost(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.server(compute.VMStopped)
	b.Exec("UPDATE hosts SET last_seen = now() - interval '2 minutes', disabled = true, disabled_reason = 'fans' WHERE id = $1", b.host.ID)
	_, _, err := drain.Ask(b.Ctx, b.DB, b.host, compute.DrainArguments{Concurrency: 1})
	require.Equal(t, compute.Conflict, compute.KindOf(err))
	b.Exec("UPDATE hosts SET last_seen = now() WHERE id = $1", b.host.ID)
	in := b.ask(compute.DrainArguments{Concurrency: 1})
	require.Equal(t, "fans", b.disabledReason())
	b.Exec("UPDATE hosts SET last_seen = now() - interval '2 minutes' WHERE id = $1", b.host.ID)
	require.False(t, b.pass(in))
	require.Empty(t, b.states())
	b.Exec("UPDATE hosts SET last_seen = now() WHERE id = $1", b.host.ID)
	require.False(t, b.pass(in))
	require.Len(t, b.states(), 1)
}

// A host that is deleted in the midst of its drain, since it has no server any more, is drained.
func TestDrainOfAHostThatIsDeleted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	in := b.ask(compute.DrainArguments{Concurrency: 1})
	b.Exec("DELETE FROM hosts WHERE id = $1", b.host.ID)
	require.True(t, b.pass(in))
	end, err := b.End(b.Ctx, in)
	require.NoError(t, err)
	require.Equal(t, compute.OperationSucceeded, end.State)
}

// What is asked for in vain changes nothing.
func TestDrainOfNonsense(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, _, err := drain.Ask(b.Ctx, b.DB, b.host, compute.DrainArguments{})
	require.Equal(t, compute.Invalid, compute.KindOf(err))
	_, err = drain.Look(b.Ctx, b.DB, b.host)
	require.Equal(t, compute.NotFound, compute.KindOf(err))
	require.Zero(t, b.CountRows("SELECT count(*) FROM hosts WHERE disabled"))
	require.Zero(t, b.CountRows("SELECT count(*) FROM operations"))
}
