package workflows_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"strongroom/activities/drain"
	"strongroom/compute"
	"strongroom/durable"
	"strongroom/workflows"
)

// drainBench runs a drain whose host has a number of servers.
type drainBench struct {
	env       *testsuite.TestWorkflowEnvironment
	in        durable.OperationInput
	watched   int  // calls of Watch
	cancelled bool // on record
	ends      int
	watch     func(ctx context.Context, nth int) (drain.WatchResult, error)
	end       drain.EndResult
	fails     int // how many calls of End fail first
}

func newDrainBench(t *testing.T) *drainBench {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	b := &drainBench{env: newEnvironment(&suite), end: drain.EndResult{State: compute.OperationSucceeded}}
	b.in = durable.OperationInput{Operation: compute.NewOperationID(), Subject: compute.HostOwner(compute.HostID{UUID: uuid.New()})}
	b.env.SetTestTimeout(20 * time.Second)
	b.env.SetWorkerOptions(workerOptions())
	workflows.Register(b.env)
	b.register(b.env)
	return b
}

func (b *drainBench) register(r durable.Registry) {
	drain.Begin.Register(r, func(_ context.Context, in durable.OperationInput) (drain.BeginResult, error) {
		return drain.BeginResult{Superseded: b.ends > 0, Host: durable.Host{ID: compute.HostID{UUID: in.Subject.ID}, Name: "h1"}}, nil
	})
	drain.Watch.Register(r, func(ctx context.Context, _ drain.WatchInput) (drain.WatchResult, error) {
		b.watched++
		return b.watch(ctx, b.watched)
	})
	drain.Cancel.Register(r, durable.NoResult(func(context.Context, durable.OperationInput) error {
		b.cancelled = true
		return nil
	}))
	drain.End.Register(r, func(context.Context, durable.OperationInput) (drain.EndResult, error) {
		if b.fails--; b.fails >= 0 {
			return drain.EndResult{}, errors.New("no")
		}
		b.ends++
		return b.end, nil
	})
}

func (b *drainBench) run(t *testing.T) error {
	t.Helper()
	b.env.ExecuteWorkflow(durable.WorkflowType(compute.OpDrain), b.in)
	require.True(t, b.env.IsWorkflowCompleted())
	return b.env.GetWorkflowError()
}

// A drain watches until it is done, whatever workers stop meanwhile, and ends once.
func TestDrainWatchesToItsEnd(t *testing.T) {
	t.Parallel()
	b := newDrainBench(t)
	b.watch = func(_ context.Context, nth int) (drain.WatchResult, error) {
		return drain.WatchResult{Done: nth == 3}, nil
	}
	b.fails = 7
	require.NoError(t, b.run(t))
	require.Equal(t, 3, b.watched)
	require.Equal(t, 1, b.ends)
	require.False(t, b.cancelled)
}

// One that leaves servers behind shows that as its failure.
func TestDrainThatLeavesServers(t *testing.T) {
	t.Parallel()
	b := newDrainBench(t)
	b.watch = func(context.Context, int) (drain.WatchResult, error) { return drain.WatchResult{Done: true}, nil }
	b.end = drain.EndResult{State: compute.OperationFailed, Message: "servers left: 2"}
	require.ErrorContains(t, b.run(t), "host h1: servers left: 2")
}

// Cancelled in Temporal, a drain begins nothing more and waits for what is under way before it ends.
func TestDrainThatIsCancelled(t *testing.T) {
	t.Parallel()
	b := newDrainBench(t)
	b.watch = func(ctx context.Context, nth int) (drain.WatchResult, error) {
		if nth == 1 {
			b.env.CancelWorkflow()
			<-ctx.Done()
			return drain.WatchResult{}, temporal.NewCanceledError()
		}
		return drain.WatchResult{Done: b.cancelled && nth == 3}, nil
	}
	b.end = drain.EndResult{State: compute.OperationCancelled, Message: "cancelled, servers left: 1"}
	require.ErrorContains(t, b.run(t), "servers left: 1")
	require.True(t, b.cancelled)
	require.Equal(t, 3, b.watched)
	require.Equal(t, 1, b.ends)
}

// One that has ended already does nothing.
func TestDrainThatHasEnded(t *testing.T) {
	t.Parallel()
	b := newDrainBench(t)
	b.ends = 1
	require.NoError(t, b.run(t))
	require.Zero(t, b.watched)
}
