package operation_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"strongroom/activities/operation"
	"strongroom/compute"
	"strongroom/durable"
)

// undoSlowly ends when it gets a signal: until then its undo runs.
func undoSlowly(ctx workflow.Context, _ durable.OperationInput) error {
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	workflow.GetSignalChannel(ctx, "end").Receive(ctx, nil)
	return nil
}

// cancelRunning is what a delete begins with.
func cancelRunning(ctx workflow.Context, server compute.ServerID) error {
	return operation.CancelRunning.Do(ctx, server)
}

// A3: a delete that waits for another operation's undo holds no slot of a worker
// meanwhile.
func TestA3ACancelThatWaitsHoldsNoSlot(t *testing.T) {
	t.Parallel()
	b := setup(t)
	only := worker.New(b.client, "workflows", worker.Options{})
	only.RegisterWorkflow(cancelRunning)
	only.RegisterWorkflowWithOptions(undoSlowly, workflow.RegisterOptions{Name: "undoSlowly"})
	require.NoError(t, only.Start())
	t.Cleanup(only.Stop)
	slot := worker.New(b.client, durable.ControlQueue, worker.Options{
		DisableWorkflowWorker: true, MaxConcurrentActivityExecutionSize: 1,
		Interceptors: []interceptor.WorkerInterceptor{&durable.Boundary{}},
	})
	b.Register(slot)
	require.NoError(t, slot.Start())
	t.Cleanup(slot.Stop)

	start := func(server compute.ServerID) client.WorkflowRun {
		run, err := b.client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: "workflows"}, cancelRunning, server)
		require.NoError(t, err)
		return run
	}
	var waiting []client.WorkflowRun
	var locks []string
	for range 3 {
		server := b.server()
		id := durable.WorkflowID(compute.ServerOwner(server), compute.OpStop)
		_, err := b.client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: "workflows"}, "undoSlowly", durable.OperationInput{Server: server})
		require.NoError(t, err)
		locks, waiting = append(locks, id), append(waiting, start(server))
	}
	attempts := func(run client.WorkflowRun) int32 {
		d, err := b.client.DescribeWorkflowExecution(t.Context(), run.GetID(), "")
		require.NoError(t, err)
		if len(d.GetPendingActivities()) == 0 {
			return 0
		}
		return d.GetPendingActivities()[0].GetAttempt()
	}
	for _, run := range waiting {
		require.Eventually(t, func() bool { return attempts(run) > 2 }, time.Minute, 50*time.Millisecond, "asked again and again")
	}
	require.NoError(t, start(b.server()).Get(t.Context(), nil), "the slot is free for another")
	for _, id := range locks {
		require.NoError(t, b.client.SignalWorkflow(t.Context(), id, "", "end", nil))
	}
	for _, run := range waiting {
		require.NoError(t, run.Get(t.Context(), nil))
	}
}

// watch is what the janitor does.
func watch(ctx workflow.Context) error {
	return operation.Watch.Do(ctx, operation.WatchInput{Limit: 10 * time.Minute, Every: 50 * time.Millisecond})
}

// A3: more deletes than a control worker has slots wait for undos that do not end, as
// those of servers on a silent host do not for a while. Operations that never started are
// started all the same, by a watch that begins after them, and other deletes go on.
func TestA3TwoHundredDeletesThatWaitHoldUpNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	others := worker.New(b.client, "workflows", worker.Options{})
	for _, w := range []any{cancelRunning, watch} {
		others.RegisterWorkflow(w)
	}
	others.RegisterWorkflowWithOptions(undoSlowly, workflow.RegisterOptions{Name: "undoSlowly"})
	require.NoError(t, others.Start())
	t.Cleanup(others.Stop)
	control := worker.New(b.client, durable.ControlQueue, worker.Options{
		DisableWorkflowWorker: true, MaxConcurrentActivityExecutionSize: 64, // as the control worker's
		Interceptors: []interceptor.WorkerInterceptor{&durable.Boundary{}},
	})
	b.Register(control)
	require.NoError(t, control.Start())
	t.Cleanup(control.Stop)

	start := func(id string, workflow any, input ...any) client.WorkflowRun {
		run, err := b.client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: "workflows"}, workflow, input...)
		require.NoError(t, err)
		return run
	}
	server := compute.ServerID{UUID: uuid.New()} // that all of them wait for it costs the test less
	start(durable.WorkflowID(compute.ServerOwner(server), compute.OpStop), "undoSlowly", durable.OperationInput{Server: server})
	var waiting []client.WorkflowRun
	for range 200 {
		waiting = append(waiting, start("", cancelRunning, server))
	}
	asked := 0 // of those that wait, how many have been refused once
	require.Eventually(t, func() bool {
		for ; asked < len(waiting); asked++ {
			d, err := b.client.DescribeWorkflowExecution(t.Context(), waiting[asked].GetID(), "")
			if err != nil || len(d.GetPendingActivities()) == 0 || d.GetPendingActivities()[0].GetLastFailure() == nil {
				return false
			}
		}
		return true
	}, 10*time.Minute, 200*time.Millisecond)

	op := b.operation(b.server(), compute.OpCreate)
	janitor := start("", watch)
	b.becomes(op, compute.OperationRunning)
	require.NoError(t, start("", cancelRunning, b.server()).Get(t.Context(), nil), "another delete goes on")
	for _, run := range waiting {
		d, err := b.client.DescribeWorkflowExecution(t.Context(), run.GetID(), "")
		require.NoError(t, err)
		require.NotEmpty(t, d.GetPendingActivities(), "it still waits")
	}
	require.NoError(t, b.client.CancelWorkflow(t.Context(), janitor.GetID(), ""))
}

// How soon it is tried again is the activity's own word.
func TestACancelThatWaitsIsTriedAgainSoon(t *testing.T) {
	t.Parallel()
	b := setup(t)
	server := b.server()
	require.NoError(t, b.Starter.Start(t.Context(), b.operation(server, compute.OpStop)))
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{&durable.Boundary{}}})
	b.Register(env)
	_, err := env.ExecuteActivity(operation.CancelRunning.Name, server)
	var failure *temporal.ApplicationError
	require.ErrorAs(t, err, &failure)
	require.Equal(t, string(compute.Unavailable), failure.Type())
	require.False(t, failure.NonRetryable())
	require.Equal(t, 250*time.Millisecond, failure.NextRetryDelay())
}
