package worker_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	sdk "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"strongroom/deploy/dev/temporal/temporaltest"
	"strongroom/durable"
	"strongroom/worker"
)

// patience is how long a test waits for what must happen, also on a busy machine.
const patience = 3 * time.Minute

// hostQueue is served by a worker without a version, as hosts are.
const hostQueue = "host/a"

// cloud is a Temporal server with a host on which work stands still until it is
// released.
type cloud struct {
	t      *testing.T
	client client.Client
	held   atomic.Int32 // how many operations the host works on
	open   chan struct{}
	once   sync.Once
}

func newCloud(t *testing.T) *cloud {
	t.Helper()
	c := &cloud{t: t, client: temporaltest.Dial(t, temporaltest.Start(t)), open: make(chan struct{})}
	t.Cleanup(c.release)
	host := sdk.New(c.client, hostQueue, sdk.Options{DisableWorkflowWorker: true, MaxConcurrentActivityExecutionSize: 50})
	host.RegisterActivityWithOptions(func(ctx context.Context) error {
		c.held.Add(1)
		select {
		case <-c.open:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}, activity.RegisterOptions{Name: "boot"})
	require.NoError(t, host.Start())
	t.Cleanup(host.Stop)
	return c
}

func (c *cloud) release() { c.once.Do(func() { close(c.open) }) }

var record = durable.Activity[durable.None, durable.None]{Name: "record", Queue: durable.RecordQueue}

// operate works in each of the places in which operations work: the record, the
// host, the cloud's services, and Temporal's own queue.
func operate(ctx workflow.Context) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: 10 * patience})
	for _, call := range []func() workflow.Future{
		func() workflow.Future { return record.Start(ctx, durable.None{}) },
		func() workflow.Future {
			return workflow.ExecuteActivity(workflow.WithTaskQueue(ctx, hostQueue), "boot")
		},
		func() workflow.Future { return record.Start(ctx, durable.None{}) },
		func() workflow.Future {
			return workflow.ExecuteActivity(workflow.WithTaskQueue(ctx, durable.CloudQueue), "call")
		},
		func() workflow.Future {
			return workflow.ExecuteActivity(workflow.WithTaskQueue(ctx, durable.ControlQueue), "call")
		},
		func() workflow.Future { return record.Start(ctx, durable.None{}) },
	} {
		if err := call().Get(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}

// operateAnew is operate as a later version has it: a history of operate does not
// replay on it.
func operateAnew(ctx workflow.Context) error {
	if err := workflow.Sleep(ctx, time.Millisecond); err != nil {
		return err
	}
	return operate(ctx)
}

// tidy is a workflow that never ends by itself and goes on with each version.
func tidy(ctx workflow.Context) error {
	workflow.GetSignalChannel(ctx, "end").Receive(ctx, nil)
	return nil
}

// control is a running control worker.
type control struct {
	stop  context.CancelFunc
	ended chan error
	name  string
	log   *lines
}

// start runs a control worker of a version until it is told to stop, and waits until
// the version is current. changes is what the version makes of the workflow "changes".
func (c *cloud) start(version string, changes func(workflow.Context) error) *control {
	c.t.Helper()
	log := &lines{}
	logger := slog.New(slog.NewTextHandler(log, nil))
	d := worker.Deployment{
		Temporal: c.client, Namespace: "default", Version: version, Drain: 10 * patience, Logger: logger,
		Register: func(r sdk.WorkflowRegistry) {
			r.RegisterWorkflowWithOptions(operate, workflow.RegisterOptions{Name: "operation"})
			r.RegisterWorkflowWithOptions(changes, workflow.RegisterOptions{Name: "changes"})
			r.RegisterWorkflowWithOptions(tidy, workflow.RegisterOptions{Name: "tidy", VersioningBehavior: workflow.VersioningBehaviorAutoUpgrade})
		},
	}
	o := sdk.Options{DeploymentOptions: d.Options(), Interceptors: []interceptor.WorkerInterceptor{&durable.Boundary{}}, DisableRegistrationAliasing: true}
	group := worker.NewGroup("control worker", logger)
	queues := []sdk.Worker{group.New(c.client, durable.ControlQueue, o), group.New(c.client, durable.CloudQueue, o)}
	d.Register(queues[0])
	for _, w := range queues {
		record.Register(w, durable.NoResult(func(context.Context, durable.None) error { return nil }))
		w.RegisterActivityWithOptions(func(context.Context) error { return nil }, activity.RegisterOptions{Name: "call"})
	}
	ctx, cancel := context.WithCancel(context.Background())
	w := &control{stop: cancel, ended: make(chan error, 1), name: version, log: log}
	current := make(chan struct{})
	go func() {
		w.ended <- d.Run(ctx, group, func(context.Context) error { close(current); return nil })
	}()
	c.t.Cleanup(cancel)
	select {
	case <-current:
	case err := <-w.ended:
		require.NoError(c.t, err)
	case <-time.After(patience):
		c.t.Fatal("version " + version + " never became current")
	}
	return w
}

// operations starts operations and waits until the host works on all of them.
func (c *cloud) operations(kind string, n int) (all []client.WorkflowRun) {
	c.t.Helper()
	want := c.held.Load() + int32(n)
	for range n {
		run, err := c.client.ExecuteWorkflow(c.t.Context(), client.StartWorkflowOptions{TaskQueue: durable.ControlQueue}, kind)
		require.NoError(c.t, err)
		all = append(all, run)
	}
	require.Eventually(c.t, func() bool { return c.held.Load() == want }, patience, 20*time.Millisecond)
	return all
}

// versions are those that an operation's workflow tasks ran on, once each.
func (c *cloud) versions(run client.WorkflowRun) (found []string) {
	c.t.Helper()
	events := c.client.GetWorkflowHistory(c.t.Context(), run.GetID(), run.GetRunID(), false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event, err := events.Next()
		require.NoError(c.t, err)
		if done := event.GetWorkflowTaskCompletedEventAttributes(); done != nil {
			if v := done.GetDeploymentVersion().GetBuildId(); len(found) == 0 || found[len(found)-1] != v {
				found = append(found, v)
			}
		}
	}
	return found
}

func (c *cloud) complete(all []client.WorkflowRun) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	for _, run := range all {
		require.NoError(c.t, run.Get(ctx, nil))
	}
}

func (w *control) hasEnded(t *testing.T, within time.Duration) {
	t.Helper()
	select {
	case err := <-w.ended:
		require.NoError(t, err)
	case <-time.After(within):
		t.Fatal("the worker of version " + w.name + " does not end:\n" + w.log.String())
	}
}

// A10: what a control worker runs is pinned to its version.
func TestA10ControlWorkersArePinned(t *testing.T) {
	t.Parallel()
	o := worker.Deployment{Version: "1.0.0"}.Options()
	require.True(t, o.UseVersioning)
	require.Equal(t, sdk.WorkerDeploymentVersion{DeploymentName: worker.DeploymentName, BuildID: "1.0.0"}, o.Version)
	require.Equal(t, workflow.VersioningBehaviorPinned, o.DefaultVersioningBehavior)
}

// A10: a version is upgraded under running operations, the new one started beside the
// old one: each operation ends on the version on which it began, and the old worker
// ends after the last of its own. A workflow that is not pinned goes along and keeps
// nobody.
func TestA10UpgradeInPlaceUnderRunningOperations(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	before := c.start("1.0.0", operate)
	old := c.operations("operation", 20)
	endless, err := c.client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: durable.ControlQueue}, "tidy")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(c.versions(endless)) == 1 }, patience, 20*time.Millisecond)
	after := c.start("2.0.0", operateAnew)
	before.stop()
	young := c.operations("changes", 5)
	require.Never(t, func() bool { return len(before.ended) > 0 }, 8*time.Second, time.Second, "its operations need it")
	c.release()
	c.complete(append(old, young...))
	before.hasEnded(t, patience)
	for _, run := range old {
		require.Equal(t, []string{"1.0.0"}, c.versions(run))
	}
	for _, run := range young {
		require.Equal(t, []string{"2.0.0"}, c.versions(run))
	}
	require.Contains(t, before.log.String(), "operations=20")
	require.NoError(t, c.client.SignalWorkflow(t.Context(), endless.GetID(), "", "end", nil))
	c.complete([]client.WorkflowRun{endless})
	require.Equal(t, []string{"1.0.0", "2.0.0"}, c.versions(endless))
	after.stop()
	after.hasEnded(t, patience)
}

// A10: the old workers stop before the new ones start: the new ones take over what they
// can go on with, and say of the rest which version it needs.
func TestA10UpgradeInPlaceAfterTheOldWorkersStopped(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	before := c.start("1.0.0", operate)
	old := c.operations("operation", 20)
	changed := c.operations("changes", 1)
	require.Eventually(t, func() bool {
		found, err := c.client.CountWorkflow(t.Context(), &workflowservice.CountWorkflowExecutionsRequest{
			Query: "TemporalWorkflowVersioningBehavior = 'Pinned' AND ExecutionStatus = 'Running'",
		})
		return err == nil && found.GetCount() == 21
	}, patience, 100*time.Millisecond)
	before.stop()
	before.hasEnded(t, patience) // the current version is restarted, not drained
	require.Regexp(t, `stopping the current version: .* version=1\.0\.0 operations=21`, before.log.String())

	after := c.start("2.0.0", operateAnew)
	c.release()
	c.complete(old)
	for _, run := range old {
		require.Equal(t, []string{"1.0.0", "2.0.0"}, c.versions(run))
	}
	require.Eventually(t, func() bool {
		said := after.log.String()
		return strings.Contains(said, "workflow="+changed[0].GetID()) && strings.Contains(said, "version 2.0.0 cannot go on with it")
	}, patience, 100*time.Millisecond)

	again := c.start("1.0.0", operate)
	c.complete(changed)
	require.Equal(t, []string{"1.0.0"}, c.versions(changed[0]))
	after.stop()
	after.hasEnded(t, patience)
	again.stop()
	again.hasEnded(t, patience)
}

// Workers of one version that start at once all find it current.
func TestSeveralWorkersMakeTheirVersionCurrent(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() { c.start("1.0.0", operate) })
	}
	all.Wait()
	c.release()
	c.complete(c.operations("operation", 3))
}

// lines is a log that is read while it is written.
type lines struct {
	mu   sync.Mutex
	text []byte
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	return len(p), nil
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}
