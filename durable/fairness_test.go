package durable_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"strongroom/compute"
	"strongroom/deploy/dev/temporal/temporaltest"
	"strongroom/durable"
)

// H6: work of one project in a queue does not stand behind all that another project asked
// for before, on a host's bulk queue and on that of the cloud services.
func TestH6QueuesAreSharedBetweenProjects(t *testing.T) {
	t.Parallel()
	host := durable.Host{ID: compute.HostID{UUID: uuid.New()}}
	copying := durable.HostActivity[string, durable.None]{Name: "copy", Bulk: true}.On(host)
	asking := durable.Activity[string, durable.None]{Name: "ask", Queue: durable.CloudQueue}
	for name, work := range map[string]durable.Activity[string, durable.None]{"a host's bulk queue": copying, "the cloud queue": asking} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := &queued{t: t, client: temporaltest.Client(t), queue: work.Queue}
			w := worker.New(q.client, durable.ControlQueue, worker.Options{DisableRegistrationAliasing: true})
			w.RegisterWorkflowWithOptions(func(ctx workflow.Context, in durable.OperationInput) error {
				return work.Do(ctx, string(in.Operation[:5]))
			}, workflow.RegisterOptions{Name: durable.WorkflowType(compute.OpCreate)})
			require.NoError(t, w.Start())
			t.Cleanup(w.Stop)

			const few = 5
			q.add("req-a", 100)
			q.add("req-b", few)
			order := q.work(work.Name)
			require.Len(t, order, 100+few)
			last := 0
			for i, who := range order {
				if who == "req-b" {
					last = i
				}
			}
			t.Logf("%s: the few of a project were done after %d of all, in turn they are after %d: ratio %.2f",
				name, last+1, 2*few, float64(last+1)/(2*few))
			require.LessOrEqual(t, last+1, few*3, "%v", order) // a ratio of 1.5
		})
	}
}

// queued is a task queue whose worker is not there yet.
type queued struct {
	t      *testing.T
	client client.Client
	queue  durable.Queue
	all    int
}

// add starts operations of one project and waits until the queue has their work.
func (q *queued) add(project string, n int) {
	q.t.Helper()
	for range n {
		op := newOperation(newServer(), compute.OpCreate)
		op.ID, op.Credential.ProjectID = compute.OperationID(project+"-"+uuid.NewString()), project
		require.NoError(q.t, durable.Starter{Client: q.client}.Start(q.t.Context(), op))
	}
	q.all += n
	require.Eventually(q.t, func() bool {
		got, err := q.client.DescribeTaskQueueEnhanced(q.t.Context(), client.DescribeTaskQueueEnhancedOptions{
			TaskQueue: q.queue, TaskQueueTypes: []client.TaskQueueType{client.TaskQueueTypeActivity}, ReportStats: true,
		})
		require.NoError(q.t, err)
		waiting := int64(0)
		for _, version := range got.VersionsInfo { //nolint:staticcheck // the only way to ask for it
			waiting += version.TypesInfo[client.TaskQueueType(enumspb.TASK_QUEUE_TYPE_ACTIVITY)].Stats.ApproximateBacklogCount
		}
		return waiting == int64(q.all)
	}, 2*time.Minute, 100*time.Millisecond)
}

// work does all of it, one after another, and says whose it was.
func (q *queued) work(name string) (order []string) {
	q.t.Helper()
	var mu sync.Mutex
	done := make(chan struct{})
	w := worker.New(q.client, q.queue, worker.Options{DisableWorkflowWorker: true, MaxConcurrentActivityExecutionSize: 1})
	durable.Activity[string, durable.None]{Name: name}.Register(w, func(_ context.Context, who string) (durable.None, error) {
		mu.Lock()
		defer mu.Unlock()
		if order = append(order, who); len(order) == q.all {
			close(done)
		}
		return durable.None{}, nil
	})
	require.NoError(q.t, w.Start())
	defer w.Stop()
	select {
	case <-done:
	case <-time.After(3 * time.Minute):
	}
	mu.Lock()
	defer mu.Unlock()
	return order
}
