package durable_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"strongroom/compute"
	"strongroom/deploy/dev/temporal/temporaltest"
	"strongroom/durable"
)

// EE-41: a host's worker refuses a step that it does not know: it will not know it before it is upgraded. One of the
// cloud is tried again, for a control worker of another version may know it.
func TestEE41AStepThatAWorkerDoesNotKnow(t *testing.T) {
	t.Parallel()
	c := temporaltest.Client(t)
	start := func(queue string, register func(worker.Worker)) worker.Worker {
		t.Helper()
		w := worker.New(c, queue, worker.Options{Interceptors: []interceptor.WorkerInterceptor{&durable.Boundary{}}})
		register(w)
		require.NoError(t, w.Start())
		return w
	}
	known := func(w worker.Worker, name string) {
		durable.Activity[durable.None, durable.None]{Name: name}.Register(w, durable.NoResult(func(context.Context, durable.None) error { return nil }))
	}
	host := durable.Host{ID: compute.HostID{UUID: uuid.New()}, Name: "older"}
	step := durable.HostActivity[durable.None, durable.None]{Name: "disk.New"}
	long := durable.HostActivity[durable.None, durable.None]{Name: "disk.NewCopy", Bulk: true}
	cloud := durable.Activity[durable.None, durable.None]{Name: "key.New", Queue: durable.CloudQueue}
	for _, queue := range []string{durable.HostQueue(host.ID), durable.HostBulkQueue(host.ID)} {
		t.Cleanup(start(queue, func(w worker.Worker) {
			known(w, "disk.Old")
			durable.RefuseUnknown(w)
		}).Stop)
	}
	older := start(durable.CloudQueue, func(w worker.Worker) { known(w, "key.Old") })
	t.Cleanup(start(durable.ControlQueue, func(w worker.Worker) {
		w.RegisterWorkflowWithOptions(func(ctx workflow.Context, of string) error {
			return map[string]func() error{
				step.Name:  func() error { return step.On(host).Do(ctx, durable.None{}) },
				long.Name:  func() error { return long.On(host).TakenWithin(durable.HostSilence).Do(ctx, durable.None{}) },
				cloud.Name: func() error { return cloud.Do(ctx, durable.None{}) },
			}[of]()
		}, workflow.RegisterOptions{Name: "step"})
	}).Stop)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	does := func(name string) client.WorkflowRun {
		t.Helper()
		run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: durable.ControlQueue}, "step", name)
		require.NoError(t, err)
		return run
	}
	for _, name := range []string{step.Name, long.Name} {
		got := durable.FromTemporal(does(name).Get(ctx, nil))
		require.Equal(t, compute.NoHost, got.Kind, got.Message)
		require.Equal(t, "the host's worker is of another release, which does not know "+name, got.Message)
		require.Equal(t, got.Message, got.PublicText())
	}
	run := does(cloud.Name)
	require.Eventually(t, func() bool {
		about, err := c.DescribeWorkflowExecution(ctx, run.GetID(), run.GetRunID())
		return err == nil && len(about.GetPendingActivities()) == 1 && about.GetPendingActivities()[0].GetAttempt() > 1
	}, time.Minute, 50*time.Millisecond)
	older.Stop()
	t.Cleanup(start(durable.CloudQueue, func(w worker.Worker) { known(w, cloud.Name) }).Stop)
	require.NoError(t, run.Get(ctx, nil))
}
