package durable_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"strongroom/compute"
	"strongroom/deploy/dev/temporal/temporaltest"
	"strongroom/durable"
)

// An operation whose database is away writes a few events and then none, however long it
// is away: Temporal tries its write again.
func TestA12AnOutageOfTheDatabaseCostsFewEvents(t *testing.T) {
	t.Parallel()
	c := temporaltest.Client(t)
	w := worker.New(c, durable.ControlQueue, worker.Options{Interceptors: []interceptor.WorkerInterceptor{&durable.Boundary{}}})
	var back atomic.Bool // the database
	var attempts atomic.Int32
	write := durable.Activity[durable.None, durable.None]{Name: "write", Queue: durable.RecordQueue}
	write.Register(w, durable.NoResult(func(context.Context, durable.None) error {
		if attempts.Add(1); !back.Load() {
			return compute.Errorf(compute.Unavailable, "connection refused")
		}
		return nil
	}))
	w.RegisterWorkflowWithOptions(func(ctx workflow.Context) error {
		return write.Do(ctx, durable.None{})
	}, workflow.RegisterOptions{Name: "writes"})
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: durable.ControlQueue}, "writes")
	require.NoError(t, err)

	// The database is away until Temporal has tried it several times.
	tried := func(times int32) *workflowservice.DescribeWorkflowExecutionResponse {
		for {
			require.NoError(t, sleep(ctx, 100*time.Millisecond), "Temporal did not take over")
			about, err := c.DescribeWorkflowExecution(ctx, run.GetID(), run.GetRunID())
			require.NoError(t, err)
			if waits := about.GetPendingActivities(); len(waits) == 1 && waits[0].GetAttempt() > times {
				return about
			}
		}
	}
	tried(1)
	require.GreaterOrEqual(t, attempts.Load(), int32(6), "a short outage is met by attempts soon after one another")
	events := len(history(ctx, t, c, run))
	require.LessOrEqual(t, events, 20, "the outage fills the history")
	about := tried(3)
	require.Len(t, history(ctx, t, c, run), events, "an attempt is written down")
	require.Nil(t, about.GetPendingWorkflowTask(), "a workflow task is held during the outage")

	back.Store(true)
	require.NoError(t, run.Get(ctx, nil))
}

func history(ctx context.Context, t *testing.T, c client.Client, run client.WorkflowRun) (events []*historypb.HistoryEvent) {
	t.Helper()
	all := c.GetWorkflowHistory(ctx, run.GetID(), run.GetRunID(), false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for all.HasNext() {
		event, err := all.Next()
		require.NoError(t, err)
		events = append(events, event)
	}
	return events
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
