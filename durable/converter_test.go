package durable_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/proto"

	"strongroom/compute"
	"strongroom/deploy/dev/temporal/temporaltest"
	"strongroom/durable"
)

// What is said to one host is believed by that host, of that workflow, activity and queue,
// word for word, and by nobody else; and it can be read by everybody.
func TestC1APayloadBelongsToItsPlace(t *testing.T) {
	t.Parallel()
	keys := durable.ControlKeys([]byte("secret"))
	host, other := compute.HostID{UUID: uuid.New()}, compute.HostID{UUID: uuid.New()}
	at := converter.ActivitySerializationContext{
		Namespace: "n", WorkflowID: "server/1", WorkflowType: "delete", ActivityType: "disk.Delete", TaskQueue: durable.HostQueue(host),
	}
	in := func(keys durable.Keys, at converter.SerializationContext) converter.DataConverter {
		return converter.WithDataConverterSerializationContext(durable.DataConverter(keys), at)
	}
	order := map[string]string{"disk": "root"}
	said, err := in(keys, at).ToPayload(order)
	require.NoError(t, err)
	var plain map[string]string
	require.NoError(t, converter.GetDefaultDataConverter().FromPayload(said, &plain), "the Temporal UI reads it")
	require.Equal(t, order, plain)

	believes := func(keys durable.Keys, at converter.SerializationContext, p *commonpb.Payload) bool {
		var out map[string]string
		err := in(keys, at).FromPayload(p, &out)
		require.Equal(t, err == nil, out != nil, "a payload that is refused is not decoded")
		return err == nil
	}
	own := durable.HostKeys(host, keys.Host(host))
	require.True(t, believes(own, at, said))
	bulk := at
	bulk.TaskQueue = durable.HostBulkQueue(host)
	for name, change := range map[string]func(*converter.ActivitySerializationContext){
		"workflow id":   func(c *converter.ActivitySerializationContext) { c.WorkflowID = "server/2" },
		"workflow type": func(c *converter.ActivitySerializationContext) { c.WorkflowType = "stop" },
		"activity":      func(c *converter.ActivitySerializationContext) { c.ActivityType = "disk.Create" },
		"queue":         func(c *converter.ActivitySerializationContext) { c.TaskQueue = bulk.TaskQueue },
		"other host":    func(c *converter.ActivitySerializationContext) { c.TaskQueue = durable.HostQueue(other) },
		"control":       func(c *converter.ActivitySerializationContext) { c.TaskQueue = durable.ControlQueue },
		"local":         func(c *converter.ActivitySerializationContext) { c.IsLocal = true },
	} {
		c := at
		change(&c)
		require.False(t, believes(keys, c, said), name)
	}
	require.False(t, believes(keys, converter.WorkflowSerializationContext{WorkflowID: at.WorkflowID}, said), "the workflow itself")
	require.False(t, believes(durable.ControlKeys([]byte("another")), at, said), "another cloud")
	require.False(t, believes(durable.HostKeys(other, keys.Host(other)), at, said), "another host")
	require.False(t, believes(durable.Keys{}, at, said), "nobody")

	for name, change := range map[string]func(*commonpb.Payload){
		"data":     func(p *commonpb.Payload) { p.Data = []byte(`{"disk":"other"}`) },
		"encoding": func(p *commonpb.Payload) { p.Metadata["encoding"] = []byte("binary/plain") },
		"call":     func(p *commonpb.Payload) { p.Metadata["call"] = []byte("result a b") },
		"mac":      func(p *commonpb.Payload) { p.Metadata["mac"][0]++ },
		"no mac":   func(p *commonpb.Payload) { delete(p.Metadata, "mac") },
	} {
		p := proto.CloneOf(said)
		change(p)
		require.False(t, believes(own, at, p), name)
	}

	// A host says nothing as the control plane, nor as another host.
	for _, queue := range []string{durable.ControlQueue, durable.CloudQueue, durable.HostQueue(other)} {
		c := at
		c.TaskQueue = queue
		_, err := in(own, c).ToPayload(order)
		require.Error(t, err, queue)
	}
	_, err = in(own, converter.WorkflowSerializationContext{WorkflowID: "server/1"}).ToPayload(order)
	require.Error(t, err)
	saidBack, err := in(own, bulk).ToPayload(order)
	require.NoError(t, err)
	require.True(t, believes(keys, bulk, saidBack))
}

const (
	orderName    = "thing.Remove"
	workflowName = "remove"
)

var order = durable.HostActivity[string, string]{Name: orderName}

// queueOf is a real server with a control worker and the worker of a host, which counts the
// orders that it obeys.
type queueOf struct {
	*testing.T
	client client.Client
	host   durable.Host
	server string // address
	ns     string
	obeyed atomic.Int32
	log    logged // the host's
	do     atomic.Pointer[func(context.Context, string) (string, error)]
}

// logged is what was logged.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// take gives the lines with a text that were logged since the last call.
func (l *logged) take(text string) (lines []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, text) {
			lines = append(lines, line)
		}
	}
	l.text.Reset()
	return lines
}

func newQueueOf(t *testing.T) *queueOf {
	t.Helper()
	server := temporaltest.Start(t)
	q := &queueOf{T: t, client: temporaltest.Dial(t, server), host: durable.Host{ID: compute.HostID{UUID: uuid.New()}}, server: server.Address(), ns: server.Namespace()}
	q.doing(func(_ context.Context, in string) (string, error) { return "removed " + in, nil })
	control := worker.New(q.client, durable.ControlQueue, worker.Options{Interceptors: []interceptor.WorkerInterceptor{&durable.Boundary{}}})
	control.RegisterWorkflowWithOptions(func(ctx workflow.Context, in string) (string, error) {
		return order.On(q.host).Once().TakenWithin(time.Minute).Run(ctx, in)
	}, workflow.RegisterOptions{Name: workflowName})
	require.NoError(t, control.Start())
	t.Cleanup(control.Stop)
	return q
}

func (q *queueOf) doing(do func(context.Context, string) (string, error)) { q.do.Store(&do) }

// serve starts the host's worker, with its own key alone.
func (q *queueOf) serve() {
	q.Helper()
	c, err := durable.Dial(durable.ClientConfig{
		Address: q.server, Namespace: q.ns, Keys: durable.HostKeys(q.host.ID, temporaltest.Keys.Host(q.host.ID)),
		Logger: slog.New(slog.NewTextHandler(&q.log, nil)),
	})
	require.NoError(q, err)
	q.Cleanup(c.Close)
	w := worker.New(c, durable.HostQueue(q.host.ID), worker.Options{
		DisableWorkflowWorker: true, Interceptors: []interceptor.WorkerInterceptor{&durable.Boundary{}},
	})
	order.Register(w, func(ctx context.Context, in string) (string, error) {
		q.obeyed.Add(1)
		return (*q.do.Load())(ctx, in)
	})
	require.NoError(q, w.Start())
	q.Cleanup(w.Stop)
}

func (q *queueOf) start(id, in string) client.WorkflowRun {
	q.Helper()
	run, err := q.client.ExecuteWorkflow(q.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: durable.ControlQueue}, workflowName, in)
	require.NoError(q, err)
	return run
}

// attacker is whoever reaches Temporal, without a key.
func (q *queueOf) attacker() client.Client {
	q.Helper()
	c, err := client.Dial(client.Options{HostPort: q.server, Namespace: q.ns})
	require.NoError(q, err)
	q.Cleanup(c.Close)
	return c
}

// orders gives an order to the host from a workflow of the attacker's, under a workflow id
// and type that strongroom uses.
func (q *queueOf) orders(c client.Client, id string, said ...any) error {
	q.Helper()
	queue := "attacker/" + uuid.NewString()
	w := worker.New(c, queue, worker.Options{})
	w.RegisterWorkflowWithOptions(func(ctx workflow.Context) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			ActivityID: "1", TaskQueue: durable.HostQueue(q.host.ID), StartToCloseTimeout: time.Minute,
		})
		return workflow.ExecuteActivity(ctx, orderName, said...).Get(ctx, nil)
	}, workflow.RegisterOptions{Name: workflowName})
	require.NoError(q, w.Start())
	defer w.Stop()
	run, err := c.ExecuteWorkflow(q.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: queue}, workflowName)
	require.NoError(q, err)
	return run.Get(q.Context(), nil)
}

// said is the input and the result of the host's activity in a run.
func (q *queueOf) said(run client.WorkflowRun) (input, result *commonpb.Payload) {
	q.Helper()
	events := q.client.GetWorkflowHistory(q.Context(), run.GetID(), run.GetRunID(), false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event, err := events.Next()
		require.NoError(q, err)
		if a := event.GetActivityTaskScheduledEventAttributes(); a != nil {
			input = a.GetInput().GetPayloads()[0]
		}
		if a := event.GetActivityTaskCompletedEventAttributes(); a != nil {
			result = a.GetResult().GetPayloads()[0]
		}
	}
	return input, result
}

// A host obeys no order that strongroom did not give, and none twice, and says so in its log.
func TestC1AHostObeysStrongroomAlone(t *testing.T) {
	t.Parallel()
	q := newQueueOf(t)
	q.serve()
	const id = "server/1"
	run := q.start(id, "disk")
	var out string
	require.NoError(t, run.Get(t.Context(), &out))
	require.Equal(t, "removed disk", out)
	input, _ := q.said(run)
	require.JSONEq(t, `"disk"`, string(input.GetData()), "the Temporal UI shows what was ordered")
	require.EqualValues(t, 1, q.obeyed.Load())
	require.Empty(t, q.log.take("refused"))

	attacker := q.attacker()
	for name, said := range map[string][]any{"forged": {"disk"}, "replayed": {converter.NewRawValue(input)}, "without a word": nil} {
		err := q.orders(attacker, id, said...)
		require.Error(t, err, name)
		var app *temporal.ApplicationError
		require.ErrorAs(t, err, &app, name)
		require.Equal(t, string(compute.Forbidden), app.Type(), name)
		require.True(t, app.NonRetryable(), name)
		lines := q.log.take("level=WARN msg=\"refused: an order that strongroom did not give, or not for this call\"")
		require.Len(t, lines, 1, name)
		require.Contains(t, lines[0], "ActivityType="+orderName, name)
		require.Contains(t, lines[0], "WorkflowID="+id, name)
	}
	require.EqualValues(t, 1, q.obeyed.Load())
}

// A workflow believes nobody but the host, and of it no answer to another call: what it is
// told in the place of an answer counts as an outcome that is not known.
func TestC1AWorkflowBelievesItsHostAlone(t *testing.T) {
	t.Parallel()
	q := newQueueOf(t)
	const id = "server/1"
	attacker := q.attacker()
	notFound := &failurepb.Failure{Message: "there is no such disk", FailureInfo: &failurepb.Failure_ApplicationFailureInfo{
		ApplicationFailureInfo: &failurepb.ApplicationFailureInfo{Type: string(compute.NotFound), NonRetryable: true},
	}}
	complete := func(run client.WorkflowRun, p *commonpb.Payload) error {
		var result *commonpb.Payloads
		if p != nil {
			result = &commonpb.Payloads{Payloads: []*commonpb.Payload{p}}
		}
		_, err := attacker.WorkflowService().RespondActivityTaskCompletedById(t.Context(), &workflowservice.RespondActivityTaskCompletedByIdRequest{
			Namespace: q.ns, WorkflowId: run.GetID(), RunId: run.GetRunID(), ActivityId: "1", Result: result,
		})
		return err
	}
	fail := func(run client.WorkflowRun, f *failurepb.Failure) error {
		_, err := attacker.WorkflowService().RespondActivityTaskFailedById(t.Context(), &workflowservice.RespondActivityTaskFailedByIdRequest{
			Namespace: q.ns, WorkflowId: run.GetID(), RunId: run.GetRunID(), ActivityId: "1", Failure: f,
		})
		return err
	}
	text, err := json.Marshal("removed disk")
	require.NoError(t, err)
	forged := &commonpb.Payload{Metadata: map[string][]byte{"encoding": []byte(converter.MetadataEncodingJSON)}, Data: text}

	q.serve()
	before := q.start(id, "disk")
	require.NoError(t, before.Get(t.Context(), nil))
	_, old := q.said(before)
	q.doing(func(context.Context, string) (string, error) {
		return "", compute.Errorf(compute.NotFound, "there is no such disk")
	})
	failed := q.start(id, "disk")
	require.Equal(t, compute.NotFound, compute.KindOf(durable.FromTemporal(failed.Get(t.Context(), nil))), "the host's own word is believed")
	oldFailure := q.failure(failed)

	for name, answer := range map[string]func(client.WorkflowRun) error{
		"forged result":    func(run client.WorkflowRun) error { return complete(run, forged) },
		"replayed result":  func(run client.WorkflowRun) error { return complete(run, old) },
		"no result":        func(run client.WorkflowRun) error { return complete(run, nil) },
		"no failure":       func(run client.WorkflowRun) error { return fail(run, nil) },
		"forged failure":   func(run client.WorkflowRun) error { return fail(run, notFound) },
		"replayed failure": func(run client.WorkflowRun) error { return fail(run, oldFailure) },
	} {
		taken, leave := make(chan struct{}), make(chan struct{})
		q.doing(func(context.Context, string) (string, error) {
			close(taken)
			<-leave
			return "", nil
		})
		run := q.start(id, "disk")
		<-taken
		require.NoError(t, answer(run), name)
		got := durable.FromTemporal(run.Get(t.Context(), nil))
		close(leave)
		require.NotNil(t, got, name)
		require.Equal(t, compute.Unavailable, got.Kind, name)
		require.Contains(t, got.Message, "not authentic", name)
	}
}

func (q *queueOf) failure(run client.WorkflowRun) *failurepb.Failure {
	q.Helper()
	events := q.client.GetWorkflowHistory(q.Context(), run.GetID(), run.GetRunID(), false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event, err := events.Next()
		require.NoError(q, err)
		if a := event.GetActivityTaskFailedEventAttributes(); a != nil {
			return a.GetFailure()
		}
	}
	q.Fatal("the activity did not fail")
	return nil
}

// Each call of a run has an answer of its own: one to the first is none to the second.
func TestC1AnAnswerIsToOneCall(t *testing.T) {
	t.Parallel()
	q := newQueueOf(t)
	taken, leave := make(chan struct{}, 2), make(chan struct{})
	q.doing(func(_ context.Context, in string) (string, error) {
		taken <- struct{}{}
		if in == "second" {
			<-leave
		}
		return "removed " + in, nil
	})
	q.serve()
	const name = "remove two"
	control := worker.New(q.client, "two", worker.Options{Interceptors: []interceptor.WorkerInterceptor{&durable.Boundary{}}})
	control.RegisterWorkflowWithOptions(func(ctx workflow.Context) error {
		for _, in := range []string{"first", "second"} {
			if _, err := order.On(q.host).Once().TakenWithin(time.Minute).Run(ctx, in); err != nil {
				return err
			}
		}
		return nil
	}, workflow.RegisterOptions{Name: name})
	require.NoError(t, control.Start())
	t.Cleanup(control.Stop)
	run, err := q.client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "server/2", TaskQueue: "two"}, name)
	require.NoError(t, err)
	<-taken
	<-taken
	_, first := q.said(run)
	_, err = q.attacker().WorkflowService().RespondActivityTaskCompletedById(t.Context(), &workflowservice.RespondActivityTaskCompletedByIdRequest{
		Namespace: q.ns, WorkflowId: run.GetID(), RunId: run.GetRunID(), ActivityId: "2", Result: &commonpb.Payloads{Payloads: []*commonpb.Payload{first}},
	})
	require.NoError(t, err)
	got := durable.FromTemporal(run.Get(t.Context(), nil))
	close(leave)
	require.NotNil(t, got)
	require.Contains(t, got.Message, "not authentic")
}
