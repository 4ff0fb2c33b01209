package durable_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"strongroom/compute"
	"strongroom/deploy/dev/temporal/temporaltest"
	"strongroom/durable"
)

const heartbeat = 2 * time.Second

// call is a workflow of one activity with a short heartbeat.
func call(ctx workflow.Context, name string) (string, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: time.Minute, HeartbeatTimeout: heartbeat, WaitForCancellation: true,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: 10 * time.Millisecond, BackoffCoefficient: 1},
	})
	var out string
	err := workflow.ExecuteActivity(ctx, name).Get(ctx, &out)
	return out, err
}

// work starts a worker with the boundary on a queue; each activity goes by the
// name that it has here.
func work(t *testing.T, c client.Client, queue string, activities map[string]any) worker.Worker {
	t.Helper()
	w := worker.New(c, queue, worker.Options{
		Interceptors: []interceptor.WorkerInterceptor{&durable.Boundary{}}, WorkerStopTimeout: 50 * time.Millisecond,
		MaxHeartbeatThrottleInterval: heartbeat / 4, DefaultHeartbeatThrottleInterval: heartbeat / 4,
	})
	w.RegisterWorkflowWithOptions(call, workflow.RegisterOptions{Name: "call"})
	for name, f := range activities {
		w.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
	}
	require.NoError(t, w.Start())
	return w
}

func execute(t *testing.T, c client.Client, queue, name string) client.WorkflowRun {
	t.Helper()
	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: queue}, "call", name)
	require.NoError(t, err)
	return run
}

type progress struct {
	Phase string `json:"phase"`
	Done  int64  `json:"done"`
}

func TestActivitiesOnAServer(t *testing.T) {
	t.Parallel()
	c := temporaltest.Client(t)

	t.Run("a silent call is no dead worker", func(t *testing.T) {
		t.Parallel()
		w := work(t, c, "silent", map[string]any{"sleep": func(ctx context.Context) (string, error) {
			time.Sleep(4 * heartbeat)
			return fmt.Sprint(activity.GetInfo(ctx).Attempt, ctx.Err()), nil
		}})
		defer w.Stop()
		var out string
		require.NoError(t, execute(t, c, "silent", "sleep").Get(t.Context(), &out))
		require.Equal(t, "1 <nil>", out)
	})

	t.Run("the last details stay in sight", func(t *testing.T) {
		t.Parallel()
		seen := make(chan progress, 10)
		w := work(t, c, "details", map[string]any{"copy": func(ctx context.Context) (string, error) {
			attempt := activity.GetInfo(ctx).Attempt
			if attempt > 1 {
				var p progress
				if err := activity.GetHeartbeatDetails(ctx, &p); err != nil {
					return "", err
				}
				seen <- p
			} else {
				activity.RecordHeartbeat(ctx, progress{"copy", 1<<62 + 1}) // no float64 holds it
			}
			time.Sleep(2 * heartbeat) // beats without a word
			if attempt < 4 {
				return "", compute.Errorf(compute.Unavailable, "again")
			}
			return "", nil
		}})
		defer w.Stop()
		require.NoError(t, execute(t, c, "details", "copy").Get(t.Context(), nil))
		for range 3 {
			require.Equal(t, progress{"copy", 1<<62 + 1}, <-seen)
		}
	})

	// The SDK sends what it held back with the context that it was told first.
	t.Run("a beat under a context of a part of the work does not end with it", func(t *testing.T) {
		t.Parallel()
		w := work(t, c, "part", map[string]any{"copy": func(ctx context.Context) (string, error) {
			part, cancel := context.WithCancel(ctx)
			activity.RecordHeartbeat(part, progress{"copy", 1})
			activity.RecordHeartbeat(part, progress{"copy", 2})
			cancel()
			time.Sleep(2 * heartbeat)
			return fmt.Sprint(activity.GetInfo(ctx).Attempt, ctx.Err()), nil
		}})
		defer w.Stop()
		var out string
		require.NoError(t, execute(t, c, "part", "copy").Get(t.Context(), &out))
		require.Equal(t, "1 <nil>", out)
	})

	// What adapters say of a context that ended under them.
	for name, cut := range map[string]func(error) error{
		"wrapped": func(err error) error { return compute.Errorf(compute.Unavailable, "cut off: %w", err) },
		"bare":    func(err error) error { return err },
		"muddled": func(error) error { return compute.Errorf(compute.Corrupt, "half a file") },
	} {
		t.Run("a cancel reaches a blocked call, "+name, func(t *testing.T) {
			t.Parallel()
			var reached atomic.Bool
			started := make(chan struct{})
			w := work(t, c, "cancel "+name, map[string]any{"block": func(ctx context.Context) (string, error) {
				close(started)
				<-ctx.Done()
				time.Sleep(heartbeat) // it takes its time to clean up
				reached.Store(true)
				return "", cut(ctx.Err())
			}})
			defer w.Stop()
			run := execute(t, c, "cancel "+name, "block")
			<-started
			require.NoError(t, c.CancelWorkflow(t.Context(), run.GetID(), ""))
			err := run.Get(t.Context(), nil)
			require.True(t, temporal.IsCanceledError(err), "%v", err)
			require.True(t, reached.Load(), "the workflow did not wait for it")
			desc, err := c.DescribeWorkflowExecution(t.Context(), run.GetID(), "")
			require.NoError(t, err)
			require.Equal(t, enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED, desc.GetWorkflowExecutionInfo().GetStatus())
		})

		t.Run("a stopping worker's work goes to the next, "+name, func(t *testing.T) {
			t.Parallel()
			started := make(chan int32, 4)
			block := map[string]any{"block": func(ctx context.Context) (string, error) {
				attempt := activity.GetInfo(ctx).Attempt
				started <- attempt
				if attempt > 1 {
					return "done", nil
				}
				<-ctx.Done()
				return "", cut(ctx.Err())
			}}
			w := work(t, c, "stop "+name, block)
			run := execute(t, c, "stop "+name, "block")
			require.Equal(t, int32(1), <-started)
			w.Stop()
			next := work(t, c, "stop "+name, block)
			defer next.Stop()
			var out string
			require.NoError(t, run.Get(t.Context(), &out))
			require.Equal(t, "done", out)
		})
	}
}
