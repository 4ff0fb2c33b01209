package durable

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/workflow"

	"strongroom/compute"
)

// Activity is an activity as workflows call it: its registered name, the queue
// that it runs on, and the types of its input and result. Whoever calls it can
// mistake neither.
type Activity[In, Out any] struct {
	Name    string
	Queue   Queue
	Attempt time.Duration   // that one attempt may take; 0: what its queue allows
	Summary func(In) string // what the Temporal UI shows of a call; nil: the name

	host *Host // where a HostActivity runs
	try  patience
}

// HostActivity is an activity that runs on a host: On names which.
type HostActivity[In, Out any] struct {
	Name    string
	Bulk    bool // a copy, a transfer or a conversion: it has a queue of its own beside short work
	State   bool // about the volume with the host's own state (HostStateQueue)
	Attempt time.Duration
	Summary func(In) string
}

// Host is a compute host as workflows name it.
type Host struct {
	ID   compute.HostID `json:"id"`
	Name string         `json:"name"`
}

// None is the result of an activity that has none.
type None struct{}

// NoResult makes an activity's function of one that gives an error alone.
func NoResult[In any](do func(context.Context, In) error) func(context.Context, In) (None, error) {
	return func(ctx context.Context, in In) (None, error) { return None{}, do(ctx, in) }
}

// Registry is what activities are registered with: a worker, or a test environment.
type Registry interface {
	RegisterActivityWithOptions(any, activity.RegisterOptions)
}

// Register registers do as the activity.
func (a Activity[In, Out]) Register(r Registry, do func(context.Context, In) (Out, error)) {
	register(r, a.Name, do)
}

// Register registers do as the activity.
func (a HostActivity[In, Out]) Register(r Registry, do func(context.Context, In) (Out, error)) {
	register(r, a.Name, do)
}

// On gives the activity as it runs on one host.
func (a HostActivity[In, Out]) On(host Host) Activity[In, Out] {
	queue := HostQueue(host.ID)
	if a.Bulk {
		queue = HostBulkQueue(host.ID)
	}
	if a.State {
		queue = HostStateQueue(host.ID)
	}
	return Activity[In, Out]{Name: a.Name, Queue: queue, Attempt: a.Attempt, Summary: a.Summary, host: &host}
}

// BestEffort gives the activity as a call that holds nothing up: it fails when nobody
// answers soon.
func (a Activity[In, Out]) BestEffort() Activity[In, Out] {
	a.try.purpose = forBestEffort
	return a
}

// Once gives the activity as a call of one attempt, which may take as long as the activity
// says. A host that is away shows soon (IsHostAway).
func (a Activity[In, Out]) Once() Activity[In, Out] {
	a.try.purpose = forOnce
	return a
}

// ForAWhile gives the activity of a cloud service as a call that is tried as long as one attempt may take: what changes something
// there is sent only while there is time to wait for the answer, which the time of BestEffort is too short for.
func (a Activity[In, Out]) ForAWhile() Activity[In, Out] {
	a.try.purpose = forAWhile
	return a
}

// TakenWithin gives the activity as a call that fails when no worker has taken it
// after a while (IsHostSilent).
func (a Activity[In, Out]) TakenWithin(limit time.Duration) Activity[In, Out] {
	a.try.takenWithin = limit
	return a
}

// Future is a call under way.
type Future[Out any] struct{ workflow.Future }

// Result waits for the end of the call.
func (f Future[Out]) Result(ctx workflow.Context) (Out, error) {
	var out Out
	err := f.Get(ctx, &out)
	return out, err
}

// Start starts a call. One whose input is too large fails at once (Fits).
func (a Activity[In, Out]) Start(ctx workflow.Context, in In) Future[Out] {
	if err := Fits("the input of "+a.Name, in); err != nil {
		refused, set := workflow.NewFuture(ctx)
		set.SetError(err)
		return Future[Out]{refused}
	}
	if a.Queue == RecordQueue {
		// A cancel does not reach it: a write that was cut off might still happen, after
		// the undo that answers it.
		ctx, _ = workflow.NewDisconnectedContext(ctx)
		summary := a.summary(in)
		return Future[Out]{&recordCall{
			Future:   a.local(record(ctx, summary), in),
			inOutage: func() workflow.Future { return a.remote(ctx, recordInOutage(summary), in) },
		}}
	}
	if a.try.purpose == forStep && IsUndo(ctx) {
		a.try.purpose, a.try.silence = forUndo, silence(ctx)
	}
	options := a.try.options(a.Queue, a.Attempt)
	options.Summary = a.summary(in)
	return Future[Out]{a.remote(ctx, options, in)}
}

// remote sends an order through Temporal that is good for this call alone.
func (a Activity[In, Out]) remote(ctx workflow.Context, options workflow.ActivityOptions, in In) workflow.Future {
	call := nextCall(ctx)
	options.ActivityID = call.activity
	f := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, options), a.Name, order(call, in))
	return answer{f, a.Name, call}
}

// local runs the activity in this worker; its answer is in the history.
func (a Activity[In, Out]) local(ctx workflow.Context, in In) workflow.Future {
	call := nextLocalCall(ctx)
	return answer{workflow.ExecuteLocalActivity(ctx, a.Name, order(call, in)), a.Name, call}
}

// Run calls the activity and waits for its end.
func (a Activity[In, Out]) Run(ctx workflow.Context, in In) (Out, error) {
	return a.Start(ctx, in).Result(ctx)
}

// Do is Run for a call whose result matters to nobody.
func (a Activity[In, Out]) Do(ctx workflow.Context, in In) error {
	return a.Start(ctx, in).Get(ctx, nil)
}

func (a Activity[In, Out]) summary(in In) string {
	text := a.Name
	if a.Summary != nil {
		text = a.Summary(in)
	}
	if a.host != nil && a.host.Name != "" {
		text += " on " + a.host.Name
	}
	return text
}
