package durable_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"strongroom/compute"
	"strongroom/deploy/dev/temporal/temporaltest"
	"strongroom/durable"
)

// The progress of an operation is what its activities told with their heartbeats, those of one phase together.
func TestProgressOfAnOperation(t *testing.T) {
	t.Parallel()
	c := temporaltest.Client(t)
	w := worker.New(c, durable.ControlQueue, worker.Options{MaxHeartbeatThrottleInterval: 10 * time.Millisecond, DefaultHeartbeatThrottleInterval: 10 * time.Millisecond})
	release := make(chan struct{})
	w.RegisterActivityWithOptions(func(ctx context.Context, done int64) error {
		if done > 0 {
			activity.RecordHeartbeat(ctx, compute.Progress{Phase: "copy", Done: done, Total: 100})
		}
		<-release
		return nil
	}, activity.RegisterOptions{Name: "copy"})
	w.RegisterWorkflowWithOptions(func(ctx workflow.Context, _ durable.OperationInput) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
		var all []workflow.Future
		for _, done := range []int64{0, 10, 20} {
			all = append(all, workflow.ExecuteActivity(ctx, "copy", done))
		}
		for _, one := range all {
			if err := one.Get(ctx, nil); err != nil {
				return err
			}
		}
		return nil
	}, workflow.RegisterOptions{Name: durable.WorkflowType(compute.OpCreate)})
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)

	s := durable.Starter{Client: c}
	op := newOperation(newServer(), compute.OpCreate)
	_, found, err := s.Progress(t.Context(), op)
	require.NoError(t, err)
	require.False(t, found, "it has not begun")
	require.NoError(t, s.Start(t.Context(), op))
	require.Eventually(t, func() bool {
		p, found, err := s.Progress(t.Context(), op)
		return err == nil && found && p == compute.Progress{Phase: "copy", Done: 30, Total: 200}
	}, time.Minute, 50*time.Millisecond)
	other := op
	other.ID = compute.NewOperationID()
	_, found, err = s.Progress(t.Context(), other)
	require.NoError(t, err)
	require.False(t, found, "another operation has the server")
	close(release)
	require.NoError(t, c.GetWorkflow(t.Context(), durable.WorkflowID(op.On(), op.Kind), "").Get(t.Context(), nil))
	_, found, err = s.Progress(t.Context(), op)
	require.NoError(t, err)
	require.False(t, found, "it has ended")
}
