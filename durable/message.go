package durable

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"strongroom/compute"
)

// message is the input or the result of an activity on its way through Temporal, in JSON
// its body alone. DataConverter puts into the payload, under its MAC, of which call it is:
// workflow ids are used again, so without that an old order or answer could be sent again.
type message[T any] struct {
	Body T

	call    string // "input …", "result …" or "failure …" of a call
	to      call   // of an order; it stays in the process
	checked bool   // DataConverter read it
	refused error  // what it found
}

// call is one call of an activity: of which run, and its id there. A local one has a number
// of its workflow's.
type call struct{ run, activity string }

func (c call) input() string   { return "input " + c.run + " " + c.activity }
func (c call) result() string  { return "result " + c.run + " " + c.activity }
func (c call) failure() string { return "failure " + c.run + " " + c.activity }

func isFailure(call string) bool { return strings.HasPrefix(call, "failure ") }

// sent is what says of which call it is, and received what hears it.
type sent interface {
	sentIn() string
	sentTo() call
}

type received interface {
	receive(call string, refused error)
}

func (m message[T]) sentIn() string { return m.call }

func (m message[T]) sentTo() call { return m.to }

func (m *message[T]) receive(call string, refused error) {
	m.call, m.checked, m.refused = call, true, refused
}

// MarshalJSON gives the body.
func (m message[T]) MarshalJSON() ([]byte, error) { return json.Marshal(m.Body) }

// UnmarshalJSON reads the body.
func (m *message[T]) UnmarshalJSON(text []byte) error { return json.Unmarshal(text, &m.Body) }

// verify fails if the message is not of that call.
func (m *message[T]) verify(call string) error {
	switch {
	case !m.checked: // by a converter that authenticates nothing, as tests of workflows have
		return nil
	case m.refused != nil:
		return m.refused
	case m.call != call:
		return errNotAuthentic
	}
	return nil
}

// order is what an activity is asked to do.
func order[In any](c call, in In) message[In] { return message[In]{Body: in, call: c.input(), to: c} }

type callKey struct{}

// withCall gives the context of an activity that was asked with those arguments. Temporal
// knows a local activity by another id than its workflow; its order, which never leaves the
// process, says which call it is.
func withCall(ctx context.Context, args ...any) context.Context {
	if len(args) > 0 && activity.GetInfo(ctx).IsLocalActivity {
		if m, ok := args[0].(sent); ok {
			return context.WithValue(ctx, callKey{}, m.sentTo())
		}
	}
	return ctx
}

// thisCall is the call whose activity runs.
func thisCall(ctx context.Context) call {
	if local, ok := ctx.Value(callKey{}).(call); ok {
		return local
	}
	info := activity.GetInfo(ctx)
	return call{info.WorkflowExecution.RunID, info.ActivityID}
}

// register registers do, and lets in no order that is not authentic and of this very call.
func register[In, Out any](r Registry, name string, do func(context.Context, In) (Out, error)) {
	r.RegisterActivityWithOptions(func(ctx context.Context, in message[In]) (message[Out], error) {
		ctx = withCall(ctx, in)
		own := thisCall(ctx)
		if err := in.verify(own.input()); err != nil {
			activity.GetLogger(ctx).Warn("refused: an order that strongroom did not give, or not for this call", "error", err, "call", in.call)
			return message[Out]{}, compute.Errorf(compute.Forbidden, "the order is %w", errNotAuthentic)
		}
		out, err := do(ctx, in.Body)
		if err == nil {
			err = Fits("the result of "+name, out)
		}
		if err != nil {
			return message[Out]{}, err
		}
		return message[Out]{Body: out, call: own.result()}, nil
	}, activity.RegisterOptions{Name: name})
}

// Input gives an interceptor what the activity is asked to do, if that is an In. It is not
// verified yet.
func Input[In any](in *interceptor.ExecuteActivityInput) (asked In, ok bool) {
	if len(in.Args) == 0 {
		return asked, false
	}
	m, ok := in.Args[0].(message[In])
	return m.Body, ok
}

// answer is the end of a call, as the workflow believes it.
type answer struct {
	workflow.Future
	name string
	call call
}

// typeNotAuthentic is the type of an error in whose place something else was said.
const typeNotAuthentic = "NotAuthentic"

// Get implements workflow.Future. Unavailable: what was said is not authentic, so what
// came of the call is not known.
func (a answer) Get(ctx workflow.Context, out any) error {
	var result message[json.RawMessage]
	if err := a.Future.Get(ctx, &result); err != nil {
		return a.believed(err)
	}
	if c, ok := ctx.Value(callsKey{}).(*calls); ok && !a.call.isLocal() {
		c.answered++
	}
	if err := result.verify(a.call.result()); err != nil {
		return a.refuse()
	}
	if out == nil || result.Body == nil {
		return nil
	}
	return json.Unmarshal(result.Body, out)
}

// believed gives the error of a call, if it is one of that call.
func (a answer) believed(err error) error {
	var timeout *temporal.TimeoutError
	if errors.As(err, &timeout) {
		// The server's own word. The last failure that goes with it may have been cut short.
		return err
	}
	var app *temporal.ApplicationError
	var ended *temporal.ActivityError
	if !errors.As(err, &app) {
		if errors.As(err, &ended) && ended.Unwrap() == nil {
			return a.refuse() // a failure that says nothing
		}
		return err
	}
	var public string
	var of message[string]
	if app.Type() == typeNotAuthentic || app.HasDetails() && app.Details(&public, &of) == nil && of.verify(a.call.failure()) != nil {
		return a.refuse()
	}
	return err
}

func (a answer) refuse() error {
	return compute.Errorf(compute.Unavailable, "the answer to %s is %w: what came of it is not known", a.name, errNotAuthentic)
}

// failureDetails is how many details toTemporal gives a failure: its public text, and of
// which call it is.
const failureDetails = 2

func detailsOf(ctx context.Context, err error) []any {
	return []any{bounded(compute.Public(err)), message[string]{call: thisCall(ctx).failure()}}
}

type callsKey struct{}

// calls numbers the calls of one execution.
type calls struct {
	interceptor.WorkflowInboundInterceptorBase
	made, local int
	answered    int // of those made, how many had an answer
}

// Answered counts the answers that a workflow has had to calls through Temporal, those of this worker aside: one more, and another workflow task
// is under way.
func Answered(ctx workflow.Context) int {
	if c, ok := ctx.Value(callsKey{}).(*calls); ok {
		return c.answered
	}
	return 0
}

// numbering numbers the calls of activities, so that an order can say which it is. It is
// part of the client: every worker of a client that authenticates has it.
type numbering struct{ interceptor.InterceptorBase }

// NewReplayer replays histories of such workers.
func NewReplayer() (worker.WorkflowReplayer, error) {
	return worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{Interceptors: []interceptor.WorkerInterceptor{&numbering{}}})
}

// InterceptWorkflow implements interceptor.WorkerInterceptor.
func (*numbering) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	c := &calls{}
	c.Next = next
	return c
}

// ExecuteWorkflow implements interceptor.WorkflowInboundInterceptor.
func (c *calls) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	result, err := c.Next.ExecuteWorkflow(workflow.WithValue(ctx, callsKey{}, c), in)
	return result, WorkflowError(err)
}

// nextCall is a call that is about to be made through Temporal.
func nextCall(ctx workflow.Context) call {
	out := call{run: workflow.GetInfo(ctx).WorkflowExecution.RunID}
	if c, ok := ctx.Value(callsKey{}).(*calls); ok {
		c.made++
		out.activity = strconv.Itoa(c.made)
	}
	return out
}

// nextLocalCall is a call that is about to be made in this worker.
func nextLocalCall(ctx workflow.Context) call {
	out := call{run: workflow.GetInfo(ctx).WorkflowExecution.RunID}
	if c, ok := ctx.Value(callsKey{}).(*calls); ok {
		c.local++
		out.activity = localCall + strconv.Itoa(c.local)
	}
	return out
}

const localCall = "local "

func (c call) isLocal() bool { return strings.HasPrefix(c.activity, localCall) }
