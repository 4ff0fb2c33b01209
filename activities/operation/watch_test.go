package operation_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"strongroom/activities/ledger"
	"strongroom/activities/operation"
	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema"
	"strongroom/schema/fence"
)

// watch is a call of operation.Watch in a worker that a test stops.
func (b *bundle) watch(in operation.WatchInput, stop chan struct{}) (out operation.WatchResult, err error) {
	b.t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.SetTestTimeout(time.Minute)
	env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{&durable.Boundary{}}})
	env.SetWorkerStopChannel(stop)
	b.Register(env)
	value, err := env.ExecuteActivity(operation.Watch.Name, in)
	if err == nil {
		err = value.Get(&out)
	}
	return out, err
}

const quick = 20 * time.Millisecond

// left puts a key on the ledger whose removal is due.
func (b *bundle) left() {
	b.t.Helper()
	owner := compute.ServerOwner(b.server())
	key := compute.Thing{ID: uuid.New(), Kind: compute.ThingKeySecret, Place: compute.PlaceKeyManager, Name: "key", Owner: owner}
	require.NoError(b.t, fence.Transaction(b.t.Context(), b.Pool, func(q *schema.Queries) error {
		if err := ledger.Open(b.t.Context(), q, []compute.Thing{key}); err != nil {
			return err
		}
		return ledger.Wait(b.t.Context(), q, []compute.Thing{key.Waits(compute.BlockedByThings, "the disk")})
	}))
}

// messages is a log that a test reads.
type messages struct {
	slog.Handler
	texts chan string
}

func (*messages) Enabled(context.Context, slog.Level) bool { return true }

func (l *messages) Handle(_ context.Context, r slog.Record) error {
	select {
	case l.texts <- r.Message:
	default:
	}
	return nil
}

// A9: one activity makes all passes of an hour, so that they leave no executions behind.
func TestA9AWatchMakesManyPasses(t *testing.T) {
	t.Parallel()
	b := setup(t)

	t.Run("repairs operations until its time is up", func(t *testing.T) {
		first := b.operation(b.server(), compute.OpCreate)
		got, err := b.watch(operation.WatchInput{Limit: quick}, nil)
		require.NoError(t, err)
		require.False(t, got.Due)
		b.becomes(first, compute.OperationRunning)
	})

	t.Run("a sweep repairs operations once", func(t *testing.T) {
		first := b.operation(b.server(), compute.OpCreate)
		var suite testsuite.WorkflowTestSuite
		env := suite.NewTestActivityEnvironment()
		b.Register(env)
		_, err := env.ExecuteActivity(operation.Sweep.Name, operation.SweepInput{})
		require.NoError(t, err)
		b.becomes(first, compute.OperationRunning)
	})

	t.Run("goes on after an error in a pass", func(t *testing.T) {
		b.exec("ALTER TABLE operations RENAME TO away")
		ended, logged := make(chan error, 1), &messages{texts: make(chan string, 100)}
		defer func(was *slog.Logger) { b.Logger = was }(b.Logger)
		b.Logger = slog.New(logged)
		go func() {
			_, err := b.watch(operation.WatchInput{Limit: time.Minute, Every: quick}, nil)
			ended <- err
		}()
		require.Contains(t, <-logged.texts, "a part of a pass failed")
		b.exec("ALTER TABLE away RENAME TO operations")
		op := b.operation(b.server(), compute.OpCreate)
		b.becomes(op, compute.OperationRunning)
		b.left()
		require.NoError(t, <-ended)
		b.exec("DELETE FROM ledger")
	})

	t.Run("hands over to another worker when its own stops", func(t *testing.T) {
		stop := make(chan struct{})
		time.AfterFunc(quick, func() { close(stop) })
		_, err := b.watch(operation.WatchInput{}, stop)
		var failure *temporal.ApplicationError
		require.ErrorAs(t, err, &failure)
		require.Equal(t, string(compute.Unavailable), failure.Type())
		require.False(t, failure.NonRetryable())
		require.Equal(t, time.Millisecond, failure.NextRetryDelay(), "at once")
	})

	t.Run("ends when something is due", func(t *testing.T) {
		time.AfterFunc(quick, b.left)
		got, err := b.watch(operation.WatchInput{Every: quick}, nil)
		require.NoError(t, err)
		require.True(t, got.Due)
		got, err = b.watch(operation.WatchInput{}, nil)
		require.NoError(t, err)
		require.True(t, got.Due, "it is due already")
		b.exec("DELETE FROM ledger")
	})
}

// A watch that was cancelled, or whose worker is gone, ends.
func TestWatchEndsWithItsContext(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(quick, cancel)
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.SetTestTimeout(time.Minute)
	env.SetWorkerOptions(worker.Options{BackgroundActivityContext: ctx})
	b.Register(env)
	_, err := env.ExecuteActivity(operation.Watch.Name, operation.WatchInput{})
	require.ErrorContains(t, err, "canceled")
}
