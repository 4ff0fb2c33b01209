package operation_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"strongroom/activities/operation"
	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/deploy/dev/temporal/temporaltest"
	"strongroom/durable"
	"strongroom/durable/outbox"
	"strongroom/schema"
	"strongroom/schema/schematest"
)

// bundle is a database and a namespace of Temporal of their own, and a control worker
// whose operations begin and then stand still until a signal ends them.
type bundle struct {
	*operation.Activities
	t      *testing.T
	q      *schema.Queries
	client client.Client
}

func setup(t *testing.T) *bundle {
	t.Helper()
	pool, c := schematest.New(t), temporaltest.Client(t)
	records := &record.Activities{Pool: pool}
	b := &bundle{
		t: t, q: schema.New(pool), client: c, Activities: &operation.Activities{
			Pool: pool, Starter: durable.Starter{Client: c}, Record: records, Logger: slog.New(slog.DiscardHandler),
		},
	}
	w := worker.New(c, durable.ControlQueue, worker.Options{
		LocalActivityWorkerOnly: true, Interceptors: []interceptor.WorkerInterceptor{&durable.Boundary{}},
	})
	records.Register(w)
	for _, kind := range []compute.OperationKind{compute.OpCreate, compute.OpStop, compute.OpDelete} {
		w.RegisterWorkflowWithOptions(standStill, workflow.RegisterOptions{Name: durable.WorkflowType(kind)})
	}
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)
	return b
}

func standStill(ctx workflow.Context, in durable.OperationInput) error {
	b, err := record.Begin.Run(ctx, in)
	if err != nil || b.Superseded {
		return err
	}
	workflow.NewSelector(ctx).
		AddReceive(workflow.GetSignalChannel(ctx, "end"), func(workflow.ReceiveChannel, bool) {}).
		AddReceive(ctx.Done(), func(workflow.ReceiveChannel, bool) {}).
		Select(ctx)
	return errors.New("it forgot to settle")
}

// operation adds an operation that was accepted a minute ago and has the server.
func (b *bundle) operation(server compute.ServerID, kind compute.OperationKind) compute.Operation {
	b.t.Helper()
	op := compute.Operation{ID: compute.NewOperationID(), ServerID: server, Kind: kind, State: compute.OperationAccepted}
	require.NoError(b.t, b.q.InsertOperation(b.t.Context(), schema.InsertOperationParams{
		ID: op.ID, ServerID: server.UUID, Kind: kind, ProjectID: "p", UserID: "u", Arguments: []byte(`{}`), State: compute.OperationAccepted,
	}))
	b.exec("UPDATE servers SET current_operation = $1 WHERE id = $2", op.ID, server)
	b.age(op)
	return op
}

func (b *bundle) server() compute.ServerID {
	b.t.Helper()
	id := compute.ServerID{UUID: uuid.New()}
	require.NoError(b.t, b.q.InsertServer(b.t.Context(), schema.InsertServerParams{
		ID: id, ProjectID: "p", UserID: "u", Name: "vm", Hostname: "vm", ReservationID: "r", VMState: compute.VMBuilding,
		TaskState: compute.TaskScheduling, RequiredTraits: []string{}, ForbiddenTraits: []string{}, Networks: []compute.Network{},
		Metadata: map[string]string{}, Tags: []string{}, DiskConfig: "MANUAL",
	}))
	return id
}

func (b *bundle) exec(query string, args ...any) {
	b.t.Helper()
	_, err := b.Pool.Exec(b.t.Context(), query, args...)
	require.NoError(b.t, err)
}

// age makes the sweeper look at the operation again.
func (b *bundle) age(op compute.Operation) {
	b.t.Helper()
	b.exec("UPDATE operations SET updated_at = now() - interval '1 minute' WHERE id = $1", op.ID)
}

func (b *bundle) sweep() outbox.Repaired {
	b.t.Helper()
	out, err := b.Sweep(b.t.Context())
	require.NoError(b.t, err)
	return out
}

func (b *bundle) state(op compute.Operation) compute.OperationState {
	b.t.Helper()
	row, err := b.q.GetOperation(b.t.Context(), op.ID)
	require.NoError(b.t, err)
	return row.State
}

// becomes waits for a state.
func (b *bundle) becomes(op compute.Operation, want compute.OperationState) {
	b.t.Helper()
	require.Eventually(b.t, func() bool { return b.state(op) == want }, time.Minute, 20*time.Millisecond, "it never became %s", want)
}

func id(op compute.Operation) string { return durable.WorkflowID(op.On(), op.Kind) }

func TestSweep(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := t.Context()

	t.Run("starts what was accepted and never started", func(t *testing.T) {
		op := b.operation(b.server(), compute.OpCreate)
		require.Equal(t, outbox.Repaired{Started: 1}, b.sweep())
		b.becomes(op, compute.OperationRunning)
		require.Zero(t, b.sweep(), "it was just looked at")
		b.age(op)
		require.Zero(t, b.sweep(), "it is being served")
		require.Equal(t, compute.OperationRunning, b.state(op))
		require.Zero(t, b.sweep())
	})

	t.Run("leaves alone what was accepted just now", func(t *testing.T) {
		op := b.operation(b.server(), compute.OpCreate)
		b.exec("UPDATE operations SET updated_at = now() WHERE id = $1", op.ID)
		require.Zero(t, b.sweep())
		_, found, err := b.Starter.FindExecution(ctx, op)
		require.NoError(t, err)
		require.False(t, found)
		b.exec("DELETE FROM operations WHERE id = $1", op.ID)
	})

	t.Run("closes what was terminated", func(t *testing.T) {
		op := b.operation(b.server(), compute.OpCreate)
		require.NoError(t, b.Starter.Start(ctx, op))
		b.becomes(op, compute.OperationRunning)
		require.NoError(t, b.client.TerminateWorkflow(ctx, id(op), "", "test"))
		b.age(op)
		require.Equal(t, outbox.Repaired{Closed: 1}, b.sweep())
		require.Equal(t, compute.OperationFailed, b.state(op))
		row, err := b.q.GetServer(ctx, op.ServerID)
		require.NoError(t, err)
		require.Equal(t, compute.VMError, row.VMState)
		require.Empty(t, row.TaskState)
		require.Empty(t, row.CurrentOperation)
		require.Contains(t, row.Fault.Message, "terminated")
		require.WithinDuration(t, time.Now(), row.Fault.Created, time.Minute)
		b.age(op)
		require.Zero(t, b.sweep())
	})

	t.Run("closes what ended without settling, or is gone without a trace", func(t *testing.T) {
		ended, traceless := b.operation(b.server(), compute.OpCreate), b.operation(b.server(), compute.OpStop)
		require.NoError(t, b.Starter.Start(ctx, ended))
		b.becomes(ended, compute.OperationRunning)
		require.NoError(t, b.client.SignalWorkflow(ctx, id(ended), "", "end", nil))
		require.Error(t, b.client.GetWorkflow(ctx, id(ended), "").Get(ctx, nil))
		b.exec("UPDATE operations SET state = 'running' WHERE id = $1", traceless.ID)
		b.age(ended)
		require.Equal(t, outbox.Repaired{Closed: 2}, b.sweep())
		require.Equal(t, compute.OperationFailed, b.state(ended))
		require.Equal(t, compute.OperationFailed, b.state(traceless))
	})

	t.Run("says what clears what it left", func(t *testing.T) {
		for kind, says := range map[compute.OwnerKind]string{
			compute.OwnerServer: "Delete the server", compute.OwnerVolume: "strongroom host secure-state", compute.OwnerHost: "Ask for it again",
		} {
			op := compute.Operation{ID: compute.NewOperationID(), Kind: compute.OpDrain, Subject: compute.Owner{Kind: kind, ID: uuid.New()}}
			if kind == compute.OwnerServer {
				op = b.operation(b.server(), compute.OpStop)
			} else {
				require.NoError(t, b.q.InsertOperation(ctx, schema.InsertOperationParams{
					ID: op.ID, SubjectKind: kind, SubjectID: &op.Subject.ID, Kind: op.Kind, ProjectID: "p", UserID: "u", Arguments: []byte(`{}`), State: compute.OperationRunning,
				}))
			}
			require.NoError(t, b.SettleLost(ctx, op))
			row, err := b.q.GetOperation(ctx, op.ID)
			require.NoError(t, err)
			require.Equal(t, compute.OperationFailed, row.State)
			message := row.Operation().Message
			require.True(t, strings.HasPrefix(message, "The operation was terminated from outside. "), message)
			require.Contains(t, message, says)
			require.Equal(t, kind == compute.OwnerServer, strings.Contains(message, "server"))
		}
	})

	t.Run("settles what lost its server", func(t *testing.T) {
		server := b.server()
		never := b.operation(server, compute.OpCreate) // never started
		cut := b.operation(b.server(), compute.OpCreate)
		require.NoError(t, b.Starter.Start(ctx, cut))
		b.becomes(cut, compute.OperationRunning)
		require.NoError(t, b.client.TerminateWorkflow(ctx, id(cut), "", "test"))
		first, second := b.operation(server, compute.OpDelete), b.operation(cut.ServerID, compute.OpDelete)
		b.age(cut)
		require.Equal(t, outbox.Repaired{Started: 3, Closed: 1}, b.sweep())
		b.becomes(never, compute.OperationCancelled)
		require.Equal(t, compute.OperationCancelled, b.state(cut))
		b.becomes(first, compute.OperationRunning)
		b.becomes(second, compute.OperationRunning)
		row, err := b.q.GetServer(ctx, cut.ServerID)
		require.NoError(t, err)
		require.Equal(t, second.ID, row.CurrentOperation, "the server is the delete's")
		require.Equal(t, compute.VMBuilding, row.VMState)
	})

	t.Run("waits for the one that is at its end", func(t *testing.T) {
		server := b.server()
		old := b.operation(server, compute.OpCreate)
		require.NoError(t, b.Starter.Start(ctx, old))
		b.becomes(old, compute.OperationRunning)
		next := b.operation(server, compute.OpStop)
		b.exec("UPDATE operations SET state = 'succeeded' WHERE id = $1", old.ID)
		require.Zero(t, b.sweep())
		require.Equal(t, compute.OperationAccepted, b.state(next))
		require.Eventually(t, func() bool {
			ended, err := b.Starter.Cancel(ctx, server)
			return err == nil && ended
		}, time.Minute, 20*time.Millisecond)
		require.Equal(t, outbox.Repaired{Started: 1}, b.sweep(), "it stays in sight until it could be started")
		b.becomes(next, compute.OperationRunning)
	})

	t.Run("touches nothing while Temporal is away", func(t *testing.T) {
		op := b.operation(b.server(), compute.OpStop)
		b.exec("UPDATE operations SET state = 'running' WHERE id = $1", op.ID)
		nobody, err := durable.DialLazily(durable.ClientConfig{Address: "127.0.0.1:1", Namespace: "default", Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		defer nobody.Close()
		away := *b.Activities
		away.Starter.Client = nobody
		out, err := away.Sweep(ctx)
		require.NoError(t, err, "the next sweep tries again")
		require.Zero(t, out)
		require.Equal(t, compute.OperationRunning, b.state(op))
		b.exec("DELETE FROM operations WHERE id = $1", op.ID)
	})

	t.Run("says when the database is away", func(t *testing.T) {
		pool, err := pgxpool.New(ctx, "postgres://nobody@127.0.0.1:1/nothing")
		require.NoError(t, err)
		defer pool.Close()
		away := *b.Activities
		away.Pool = pool
		_, err = away.Sweep(ctx)
		require.True(t, compute.Is(err, compute.Unavailable), "%v", err)
	})
}
