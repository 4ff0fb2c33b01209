package durable_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"strongroom/compute"
	"strongroom/deploy/dev/temporal/temporaltest"
	"strongroom/durable"
)

// H9: the quarter of an hour that an undo has is counted by Temporal: a control worker that
// is replaced meanwhile neither begins it anew nor asks a second time.
func TestH9ARestartGivesAnUndoNoMoreTime(t *testing.T) {
	t.Parallel()
	remove := durable.Activity[string, durable.None]{Name: "key.Remove", Queue: durable.CloudQueue}
	c := temporaltest.Client(t)
	const name = "undo"
	var tried atomic.Int32
	var back atomic.Bool
	start := func() (stop func()) {
		t.Helper()
		w := worker.New(c, durable.ControlQueue, worker.Options{})
		w.RegisterWorkflowWithOptions(func(ctx workflow.Context) error {
			var saga durable.Saga
			saga.Defer(durable.Undo{Step: "create_secret", Place: "cloud", Run: func(ctx workflow.Context) error { return remove.Do(ctx, "secret") }})
			saga.Unwind(ctx)
			return nil
		}, workflow.RegisterOptions{Name: name})
		require.NoError(t, w.Start())
		cloud := worker.New(c, durable.CloudQueue, worker.Options{Interceptors: []interceptor.WorkerInterceptor{&durable.Boundary{}}})
		remove.Register(cloud, durable.NoResult(func(context.Context, string) error {
			tried.Add(1)
			if back.Load() {
				return nil
			}
			return compute.Errorf(compute.Unavailable, "the key manager does not answer")
		}))
		require.NoError(t, cloud.Start())
		return func() { w.Stop(); cloud.Stop() }
	}
	stop := start()
	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "server/1", TaskQueue: durable.ControlQueue}, name)
	require.NoError(t, err)
	pending := func(tries int32) *workflowpb.PendingActivityInfo {
		t.Helper()
		var found *workflowpb.PendingActivityInfo
		require.Eventually(t, func() bool {
			if tried.Load() < tries {
				return false
			}
			out, err := c.DescribeWorkflowExecution(t.Context(), run.GetID(), run.GetRunID())
			if err != nil || len(out.GetPendingActivities()) != 1 {
				return false
			}
			found = out.GetPendingActivities()[0]
			return true
		}, 2*time.Minute, 50*time.Millisecond)
		return found
	}
	before := pending(1)
	ends := before.GetExpirationTime().AsTime()
	stop()
	stop = start()
	defer func() { stop() }()
	after := pending(tried.Load() + 1)
	require.Equal(t, before.GetActivityId(), after.GetActivityId())
	require.Greater(t, after.GetAttempt(), int32(1))
	require.Equal(t, ends, after.GetExpirationTime().AsTime(), "it ends when it would have ended")
	require.False(t, ends.IsZero())
	back.Store(true)
	require.NoError(t, run.Get(t.Context(), nil))
}
