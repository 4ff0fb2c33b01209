package durable

import (
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
	run  func(workflow.Context) error
}

// Defer registers the undo of the step that is about to run. The undo must be
// harmless when the step did nothing, and touch only what this operation made.
func (s *Saga) Defer(name string, run func(workflow.Context) error) {
	s.undos = append(s.undos, undo{name, run})
}

// Commit says that the operation's effect stands: Unwind does nothing from here.
func (s *Saga) Commit() { s.committed = true }

// Unwind runs the undos, last first, on a context that a cancel does not reach.
// One that fails does not stop the others; it is tried again, for ever, at
// growing intervals: the operation is not over while something is left.
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

// unwindOnce tries each undo, last first, and gives those that failed, in their
// order, with the last error.
func unwindOnce(ctx workflow.Context, undos []undo) (failed []undo, last error) {
	for i := len(undos) - 1; i >= 0; i-- {
		if err := undos[i].run(ctx); err != nil {
			workflow.GetLogger(ctx).Error("undo failed", "step", undos[i].name, "error", err)
			failed, last = append([]undo{undos[i]}, failed...), err
		}
	}
	return failed, last
}
