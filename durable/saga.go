package durable

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"
)

// Saga keeps the undos of an operation's steps. An undo is registered before
// its step runs, because a step that was cut off may have done its work.
type Saga struct {
	undos     []undo
	committed bool
}

type undo struct {
	name string
	last bool
	run  func(workflow.Context) error
}

// Defer registers the undo of the step that is about to run. The undo must be
// harmless when the step did nothing, and touch only what this operation made.
func (s *Saga) Defer(name string, run func(workflow.Context) error) {
	s.undos = append(s.undos, undo{name: name, run: run})
}

// DeferLast is Defer for what later steps lean on: the undo waits until every
// undo that was registered after it has succeeded.
func (s *Saga) DeferLast(name string, run func(workflow.Context) error) {
	s.undos = append(s.undos, undo{name: name, run: run, last: true})
}

// Commit says that the operation's effect stands: Unwind does nothing from here.
func (s *Saga) Commit() { s.committed = true }

// Unwind runs the undos, last first, on a context that a cancel does not reach.
// One that fails does not stop the others, but for those of DeferLast; it is
// tried again, for ever, at growing intervals: the operation is not over while
// something is left.
func (s *Saga) Unwind(ctx workflow.Context) {
	if s.committed {
		return
	}
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	left := s.undos
	s.undos = nil
	_ = Persist(ctx, func(ctx workflow.Context) error {
		var err error
		left, err = unwindOnce(ctx, left)
		return err
	})
}

// Persist runs do until it succeeds, at growing intervals. It gives up only
// when ctx is cancelled.
func Persist(ctx workflow.Context, do func(workflow.Context) error) error {
	for wait := 5 * time.Second; ; wait = min(2*wait, 10*time.Minute) {
		err := do(ctx)
		if err == nil {
			return nil
		}
		workflow.GetLogger(ctx).Error("will be tried again", "in", wait, "error", err)
		if err := workflow.Sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// unwindOnce tries each undo, last first, and gives those that are left, in
// their order, with the last error.
func unwindOnce(ctx workflow.Context, undos []undo) (left []undo, last error) {
	for _, u := range slices.Backward(undos) {
		if u.last && len(left) > 0 {
			left = append(left, u)
			continue
		}
		if err := u.run(ctx); err != nil {
			workflow.GetLogger(ctx).Error("undo failed", "step", u.name, "error", err)
			left, last = append(left, u), err
		}
	}
	slices.Reverse(left)
	return left, last
}
