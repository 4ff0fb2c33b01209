package worker_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	sdk "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"strongroom/compute"
	"strongroom/durable"
	"strongroom/worker"
)

// The progress in an activity's heartbeats is reported for its server. Heartbeats with other
// details, and a report that fails, disturb nothing.
func TestProgressIsReported(t *testing.T) {
	t.Parallel()
	server := compute.ServerID{UUID: uuid.New()}
	var reported []int
	p := &worker.Progress{Logger: slog.New(slog.DiscardHandler), Report: func(_ context.Context, of compute.ServerID, percent int) error {
		require.Equal(t, server, of)
		reported = append(reported, percent)
		return errors.New("the database is away")
	}}
	work := func(ctx context.Context) error {
		activity.RecordHeartbeat(ctx)
		activity.RecordHeartbeat(ctx, "a word")
		for done := range int64(3) {
			activity.RecordHeartbeat(ctx, compute.Progress{Phase: "copy", Done: done * 500, Total: 1000})
		}
		return nil
	}
	for _, id := range []string{durable.WorkflowID(compute.ServerOwner(server), compute.OpCreateImage), "audit"} {
		var suite testsuite.WorkflowTestSuite
		suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
		env := suite.NewTestWorkflowEnvironment()
		env.SetWorkerOptions(sdk.Options{Interceptors: []interceptor.WorkerInterceptor{&durable.Boundary{}, p}})
		env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: id, TaskQueue: durable.ControlQueue})
		env.RegisterActivityWithOptions(work, activity.RegisterOptions{Name: "work"})
		env.RegisterWorkflowWithOptions(func(ctx workflow.Context) error {
			ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
			return workflow.ExecuteActivity(ctx, "work").Get(ctx, nil)
		}, workflow.RegisterOptions{Name: "workflow"})
		env.ExecuteWorkflow("workflow")
		require.NoError(t, env.GetWorkflowError())
	}
	require.Equal(t, []int{0, 50, 100}, reported)
}
