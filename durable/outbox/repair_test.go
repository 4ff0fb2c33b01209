package outbox_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/durable"
	"strongroom/durable/outbox"
	"strongroom/schema"
	"strongroom/schema/schematest"
)

// executions is a Temporal in which what was started runs.
type executions struct {
	mu      sync.Mutex
	running map[compute.OperationID]bool
	ran     map[compute.OperationID]bool // and ended, and is not the last under its workflow id
	looked  []compute.OperationID
	refuse  func(compute.Operation) error // nil: it can be started
	cancels []compute.OperationID
}

func (e *executions) Start(_ context.Context, op compute.Operation) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.refuse != nil {
		if err := e.refuse(op); err != nil {
			return err
		}
	}
	e.running[op.ID] = true
	return nil
}

func (e *executions) HasRun(_ context.Context, op compute.Operation) (bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ran[op.ID], nil
}

func (e *executions) FindExecution(_ context.Context, op compute.Operation) (durable.ExecutionState, bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.looked = append(e.looked, op.ID)
	return durable.Running, e.running[op.ID], nil
}

func (e *executions) CancelExecution(_ context.Context, op compute.Operation) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cancels = append(e.cancels, op.ID)
	return nil
}

type bundle struct {
	*schematest.Fixture
	*executions
	repairer outbox.Repairer
	lost     []compute.OperationID
}

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{Fixture: schematest.NewFixture(t), executions: &executions{running: map[compute.OperationID]bool{}}}
	b.repairer = outbox.Repairer{
		Pool: b.DB, Executions: b.executions, Logger: slog.New(slog.DiscardHandler),
		Lost: func(_ context.Context, op compute.Operation) error {
			b.lost = append(b.lost, op.ID)
			return nil
		},
	}
	return b
}

// many adds operations on hosts that were accepted an hour ago, in a state.
func (b *bundle) many(n int, state compute.OperationState) {
	b.Exec(`INSERT INTO operations (id, subject_kind, subject_id, kind, project_id, user_id, credential_id, state, accepted_at, updated_at, started_at)
		SELECT 'req-' || $2::text || n, 'host', gen_random_uuid(), 'drain', 'p', 'u', $3, $2::text, now() - interval '1 hour', now() - interval '1 hour',
			CASE WHEN $2::text = 'running' THEN now() END
		FROM generate_series(1, $1::int) n`, n, state, uuid.New())
}

func (b *bundle) repair(t *testing.T) outbox.Repaired {
	t.Helper()
	b.looked = nil
	out, err := b.repairer.Repair(b.Ctx)
	require.NoError(t, err)
	return out
}

// A5: any number of older open operations leave one that never started its turn, and
// each other.
func TestA5RepairIsFair(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.many(2000, compute.OperationRunning)
	for n := range 2000 { // every other one runs no more, and cannot be settled
		b.running[compute.OperationID(fmt.Sprintf("req-running%d", n+1))] = n%2 == 0
	}
	op := b.Server(compute.OpCreate)
	b.Exec("UPDATE operations SET updated_at = now() - interval '1 minute' WHERE id = $1", op.ID)
	require.Equal(t, 1, b.repair(t).Started)
	require.Equal(t, op.ID, b.looked[0], "it comes first")
	require.Len(t, b.looked, 500)
	b.Exec("UPDATE operations SET state = 'running', started_at = now() WHERE id = $1", op.ID) // as its workflow does

	seen := map[compute.OperationID]bool{}
	for range 4 {
		for _, id := range b.looked {
			require.False(t, seen[id], "%s had its turn", id)
			seen[id] = true
		}
		b.repair(t)
	}
	require.False(t, seen[b.looked[0]], "the last of them")
	require.True(t, seen[b.looked[1]], "then those again that could not be settled")
	require.Equal(t, 2000, len(seen)) //nolint:testifylint // Len would print them all
}

// Those that cannot be started leave those that can their turn.
func TestRepairIsFairToWhatCanBeStarted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.many(1200, compute.OperationAccepted)
	op := b.Server(compute.OpCreate)
	b.Exec("UPDATE operations SET updated_at = now() - interval '1 minute' WHERE id = $1", op.ID)
	b.refuse = func(asked compute.Operation) error {
		if asked.ID != op.ID {
			return compute.Errorf(compute.Conflict, "another operation is ending")
		}
		return nil
	}
	for range 3 {
		b.repair(t)
	}
	require.True(t, b.running[op.ID])
}

// A5: what was accepted behind 2,000 older operations, of which none can be started, is
// started by the next two passes.
func TestA5RepairStartsWhatIsBehindThousandsThatCannotBeStarted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.many(2000, compute.OperationAccepted)
	b.refuse = func(asked compute.Operation) error {
		if asked.Kind == "drain" {
			return compute.Errorf(compute.Conflict, "another operation is ending")
		}
		return nil
	}
	for range 5 {
		b.repair(t) // all of them had their turn, and one of them its second
	}
	op := b.Server(compute.OpCreate)
	b.Exec("UPDATE operations SET updated_at = now() - interval '1 minute' WHERE id = $1", op.ID)
	b.repair(t)
	b.repair(t)
	require.True(t, b.running[op.ID])
}

// What has no execution any more is settled as lost, a row at a time.
func TestRepairClosesWhatIsGone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.many(3, compute.OperationRunning)
	b.running["req-running2"] = true
	require.Equal(t, outbox.Repaired{Closed: 2}, b.repair(t))
	require.ElementsMatch(t, []compute.OperationID{"req-running1", "req-running3"}, b.lost)
	require.Equal(t, 1, b.CountRows("SELECT count(*) FROM operations WHERE updated_at > now() - interval '1 minute'"), "the one that runs was touched")
	require.Equal(t, 3, b.CountRows("SELECT count(*) FROM operations WHERE looked_at IS NOT NULL"))
}

// M8: an operation that a restored database has as accepted, and that ran after the backup, is
// not done a second time.
func TestM8AnAcceptedOperationThatRanIsNotStartedAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.many(2, compute.OperationAccepted)
	b.ran = map[compute.OperationID]bool{"req-accepted1": true}
	require.Equal(t, outbox.Repaired{Started: 1, Closed: 1}, b.repair(t))
	require.Equal(t, []compute.OperationID{"req-accepted1"}, b.lost)
	require.Equal(t, map[compute.OperationID]bool{"req-accepted2": true}, b.running)
}

// An operation that lost its server, to os-resetState, say, is cancelled, whatever it waits for. One that has
// its server, a delete, and one without a server are not.
func TestRepairCancelsWhatLostItsServer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	lost, has, deletes := b.Server(compute.OpCreate), b.Server(compute.OpCreate), b.Server(compute.OpDelete)
	b.many(1, compute.OperationRunning)
	b.running["req-running1"] = true
	for _, op := range []compute.Operation{lost, has, deletes} {
		b.running[op.ID] = true
	}
	b.Exec("UPDATE operations SET state = 'running', updated_at = now() - interval '1 minute'")
	b.Exec("UPDATE servers SET current_operation = '' WHERE id IN ($1, $2)", lost.ServerID, deletes.ServerID)
	b.repair(t)
	require.Len(t, b.looked, 4)
	require.Equal(t, []compute.OperationID{lost.ID}, b.cancels)
	require.Empty(t, b.lost)
}

// An operation on a volume that was given up with its host is cancelled, whatever it waits for.
func TestRepairCancelsWhatIsAtWorkOnAVolumeThatWasGivenUp(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var ops []compute.OperationID
	for range 2 {
		host := compute.HostID{UUID: uuid.New()}
		volume := compute.StateVolume(host)
		b.Exec("INSERT INTO secure_volumes (id, host_id, host_name, device, wanted) VALUES ($1, $2, 'h', '/dev/v', true)", volume, host)
		op := compute.Operation{ID: compute.NewOperationID(), Kind: compute.OpSecureVolumeOpen, Subject: compute.VolumeOwner(volume)}
		b.Operation(op, nil)
		b.running[op.ID] = true
		ops = append(ops, op.ID)
		if len(ops) == 1 {
			require.NoError(t, schema.GiveUpVolume(b.Ctx, b.Q, host))
		}
	}
	b.Exec("UPDATE operations SET state = 'running', updated_at = now() - interval '1 minute'")
	b.repair(t)
	require.Len(t, b.looked, 2)
	require.Equal(t, ops[:1], b.cancels)
}

// A live migration of which an abort was asked before it touched its guest is cancelled, whatever it waits for, should
// Temporal not have been told at once. One that moves its guest is not: its host hears of it.
func TestRepairCancelsWhatIsAbortedBeforeItBegins(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var ops []compute.OperationID
	for _, m := range []struct{ status, wish string }{{"preparing", "abort"}, {"running", "abort"}, {"preparing", "force_complete"}} {
		op := b.Server(compute.OpLiveMigrate)
		b.Exec(`INSERT INTO migrations (uuid, operation_id, server_id, type, status, source, destination, old_flavor, new_flavor, project_id, user_id, wish)
			VALUES (gen_random_uuid(), $2, $1, 'live-migration', $3, 'a', 'b', '1', '1', 'p', 'u', $4)`, op.ServerID, op.ID, m.status, m.wish)
		b.running[op.ID] = true
		ops = append(ops, op.ID)
	}
	b.Exec("UPDATE operations SET state = 'running', updated_at = now() - interval '1 minute'")
	b.repair(t)
	require.Len(t, b.looked, 3)
	require.Equal(t, ops[:1], b.cancels)
}
