package workflows

import (
	"errors"
	"slices"

	"go.temporal.io/sdk/workflow"

	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

// step is one step of an operation: an event of its trail, the things that it
// makes, what it does, and how that is undone.
type step struct {
	event   string
	host    *durable.Host     // where it works; nil: in the cloud, or on the record
	task    compute.TaskState // the server's task_state from here on; TaskNone: as before
	makes   []compute.Thing   // on the ledger before, present after
	borrows []compute.Thing   // on the ledger before, gone after
	do      func(workflow.Context) error
	// undo undoes what is not on the ledger, before the things are removed; nil: all is
	// on the ledger.
	undo     func(workflow.Context) error
	undoLast bool // later steps depend on it: it is undone after all of them
}

func (s *step) things() []compute.Thing { return slices.Concat(s.makes, s.borrows) }

func (s *step) place() string {
	if s.host == nil {
		return "cloud"
	}
	return s.host.ID.String()
}

// opening is how the step begins in the trail, with what it may make on the ledger.
func (s *step) opening(things []compute.Thing) *record.Open {
	return &record.Open{Event: s.event, Host: s.host, Things: things}
}

// ended is how the step ends in the trail. Every record.Close of a workflow comes from
// here, so that it ends the event of its own host: the same step may be under way on
// another one.
func (s *step) ended() record.Close { return record.Close{Event: s.event, Host: s.host} }

func (s *step) failed(failure error) *record.Close {
	end := s.ended()
	end.Error = durable.FromTemporal(failure).Message
	return &end
}

// take runs a step: the undo is registered and the ledger written first.
func (o *operation) take(ctx workflow.Context, s step) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var failure error
	if s.undo != nil || len(s.makes)+len(s.borrows) > 0 {
		o.saga.Defer(durable.Undo{
			Step: s.event, Place: s.place(), Last: s.undoLast,
			Run: func(ctx workflow.Context) error { return o.undoStep(ctx, &s, failure) },
		})
	}
	o.made = append(o.made, s.things()...)
	got, err := o.advance(ctx, s.opening(s.things()), s.task)
	if err != nil {
		return err
	}
	o.trail.begin(ctx, &s, got.HostDown || got.HostStale)
	failure = s.do(ctx)
	o.trail.end(ctx, failure)
	if failure != nil {
		o.unwritten.Close = s.failed(failure)
		return failure
	}
	end := s.ended()
	end.Present, end.Released = s.makes, s.borrows
	o.unwritten.Close = &end
	return nil
}

// undoStep undoes a step, whether it failed or not, as an event of its own. What cannot be
// removed now waits on the ledger for the janitor, so that every undo ends (A2).
func (o *operation) undoStep(ctx workflow.Context, s *step, failure error) error {
	undo := step{event: "undo_" + s.event, host: s.host, borrows: s.borrows} // that they were gone may not last
	ctx, hostDown, err := o.open(ctx, &undo)
	if err != nil {
		return err
	}
	end := undo.ended()
	r := removals{things: o.withDependents(s.things()), hostDown: hostDown}
	if isUnanswered(failure) {
		r.late = s.things()
	}
	o.removeAfter(ctx, s, r, &end)
	return o.close(ctx, end)
}

// open opens a step of an undo, or a step after the point of no return. It is not fenced:
// such steps also run after another operation has taken over the server. hostDown: the
// host is down, as the record says, or did not answer this operation, so nothing is tried
// there. The context that it gives is for what the step does.
func (o *operation) open(ctx workflow.Context, s *step) (_ workflow.Context, hostDown bool, err error) {
	last := o.closing()
	got, err := record.Advance.Run(ctx, record.AdvanceInput{
		OperationInput: o.OperationInput, Unfenced: true, Close: last, Open: s.opening(s.borrows),
	})
	if err != nil {
		if last != nil { // another place may have put one back meanwhile
			o.unwritten.Close = last
		}
		return ctx, false, err
	}
	hostDown = got.HostDown || s.host != nil && o.isSilent(s.host.ID)
	o.trail.begin(ctx, s, hostDown || got.HostStale)
	return durable.WithStaleHost(ctx, got.HostStale), hostDown, nil
}

// close closes a step that open opened.
func (o *operation) close(ctx workflow.Context, end record.Close) error {
	in := record.AdvanceInput{OperationInput: o.OperationInput, Unfenced: true, Close: &end}
	err := durable.RetryForever(ctx, func(ctx workflow.Context) error { return record.Advance.Do(ctx, in) })
	o.trail.closed(ctx, end)
	return err
}

// runAfterCommit runs a step after the point of no return, also when another operation has
// taken over the server. do notes in end what it released and what waits. A failure is
// shown in the trail.
func (o *operation) runAfterCommit(ctx workflow.Context, s step, do func(ctx workflow.Context, hostDown bool, end *record.Close) error) error {
	var hostDown bool
	doing := ctx
	if err := durable.RetryForever(ctx, func(ctx workflow.Context) (err error) {
		doing, hostDown, err = o.open(ctx, &s)
		return err
	}); err != nil {
		return err
	}
	end := s.ended()
	failure := do(doing, hostDown, &end)
	if failure != nil {
		end.Error = durable.FromTemporal(failure).Message
	}
	if err := o.close(ctx, end); err != nil {
		return err
	}
	return failure
}

// unanswered is the failure of one of several calls of which another got no answer.
type unanswered struct{ error }

func (u unanswered) Unwrap() error { return u.error }

// isUnanswered reports whether a service may still do what the failed call asked for.
func isUnanswered(failure error) bool {
	var beside unanswered
	return failure != nil && (errors.As(failure, &beside) || durable.FromTemporal(failure).Kind == compute.Unavailable)
}

// awaitAll waits for every call and gives the results, or the first error. It never returns
// while one is still under way, because an undo may follow at once.
func awaitAll[Out any](ctx workflow.Context, calls []durable.Future[Out]) ([]Out, error) {
	var first error
	open := false
	results := make([]Out, len(calls))
	for i, c := range calls {
		got, err := c.Result(ctx)
		results[i] = got
		if open = open || isUnanswered(err); first == nil {
			first = err
		}
	}
	if open {
		return nil, unanswered{first}
	}
	return results, first
}
