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
	event    string
	host     *compute.HostID
	makes    []compute.Thing // on the ledger before, present after
	releases []compute.Thing // gone after
	do       func(workflow.Context) error
	undo     func(workflow.Context) error // nil: nothing to undo
	lean     bool                         // later steps lean on it: it is undone when all of them are
}

// take runs a step: the undo is registered and the ledger written first.
func (o *operation) take(ctx workflow.Context, s step) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var failure error
	if s.undo != nil {
		undo := func(ctx workflow.Context) error { return o.untake(ctx, s, failure) }
		if s.lean {
			o.saga.DeferLast(s.event, undo)
		} else {
			o.saga.Defer(s.event, undo)
		}
	}
	if err := o.open(ctx, s.event, s); err != nil {
		return err
	}
	if failure = s.do(ctx); failure != nil {
		o.report(ctx, s.event, failure)
		return failure
	}
	return o.close(ctx, record.CloseInput{Event: s.event, Present: s.makes, Released: s.releases})
}

// untake undoes a step, whatever came of it, and takes its things off the books, as an
// event of its own.
func (o *operation) untake(ctx workflow.Context, s step, failure error) error {
	event := "undo_" + s.event
	if err := recorded(ctx, record.Open, o.opening(event, step{host: s.host}, true), nil); err != nil {
		return err
	}
	var refused *refusal
	if err := s.undoTwice(ctx, failure); err != nil && !errors.As(err, &refused) {
		o.report(ctx, event, err)
		return err
	}
	end := record.CloseInput{Event: event, Released: s.makes}
	if refused != nil {
		end = refused.end(event, s.makes)
	}
	return o.close(ctx, end)
}

// undoTwice undoes a step. A service that gave no answer may make later what it was
// asked for, and what is not there yet cannot be removed: then it is undone once more.
func (s step) undoTwice(ctx workflow.Context, failure error) error {
	err := s.undo(ctx)
	if err != nil || !slices.ContainsFunc(s.makes, isOfCloud) || !isUnanswered(failure) {
		return err
	}
	if workflow.GetVersion(ctx, "what comes late is undone", workflow.DefaultVersion, 1) == workflow.DefaultVersion {
		return nil
	}
	if err := workflow.Sleep(ctx, durable.Lateness); err != nil {
		return err
	}
	return s.undo(ctx)
}

// unanswered is the failure of one call, when another one beside it got no answer.
type unanswered struct{ error }

func (u unanswered) Unwrap() error { return u.error }

// isUnanswered reports whether what failed may still be done.
func isUnanswered(failure error) bool {
	var beside unanswered
	return failure != nil && (errors.As(failure, &beside) || durable.FromTemporal(failure).Kind == compute.Unavailable)
}

// onward is a step behind the point from which nothing is undone: it is tried until
// it is done, and whoever has the server by then.
func (o *operation) onward(ctx workflow.Context, s step, do func(workflow.Context, *record.CloseInput) error) error {
	return durable.Persist(ctx, func(ctx workflow.Context) error {
		if err := recorded(ctx, record.Open, o.opening(s.event, s, true), nil); err != nil {
			return err
		}
		end := record.CloseInput{Event: s.event}
		failure := do(ctx, &end)
		if failure != nil && end.Error == "" {
			end.Error = durable.FromTemporal(failure).Message
		}
		if err := o.close(ctx, end); err != nil {
			return err
		}
		return failure
	})
}

func (o *operation) open(ctx workflow.Context, event string, s step) error {
	return recorded(ctx, record.Open, o.opening(event, s, false), nil)
}

func (o *operation) opening(event string, s step, undo bool) record.OpenInput {
	in := record.OpenInput{OperationInput: o.OperationInput, Event: event, Host: s.host, Things: s.makes, Undo: undo}
	if s.host != nil {
		in.Name = o.hostName
	}
	return in
}

// report puts a step's failure into the trail. That the trail cannot be written
// is no news beside the failure itself.
func (o *operation) report(ctx workflow.Context, event string, failure error) {
	message := durable.FromTemporal(failure).Message
	if err := o.close(ctx, record.CloseInput{Event: event, Error: message}); err != nil {
		workflow.GetLogger(ctx).Error("the trail lacks a failure", "event", event, "failure", failure, "error", err)
	}
}

func (o *operation) close(ctx workflow.Context, in record.CloseInput) error {
	in.OperationInput = o.OperationInput
	return recorded(ctx, record.Close, in, nil)
}

// all waits for every call and gives the first error. It never returns while
// one is still under way: an undo may follow at once.
func all(ctx workflow.Context, calls []workflow.Future) error {
	var first error
	open := false
	for _, c := range calls {
		err := c.Get(ctx, nil)
		if open = open || isUnanswered(err); first == nil {
			first = err
		}
	}
	if open {
		return unanswered{first}
	}
	return first
}
