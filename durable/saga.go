package durable

import (
	"time"

	"go.temporal.io/sdk/workflow"
)

// Saga keeps the undos of an operation's steps. An undo is registered before
// its step runs, because a step that was cut off may have done its work.
type Saga struct {
	undos     []Undo
	committed bool
}

// Undo undoes a step. It must be harmless when the step did nothing, and touch
// only what this operation made.
type Undo struct {
	Step string
	// Place is where it works: a host or the cloud. Undos at one place run one after
	// another, the last registered first; those at other places run beside them, so that
	// a host that does not answer holds up nothing else.
	Place string
	// Last says that later steps depend on the step: its undo begins when all those that
	// were registered after it have ended.
	Last bool
	Run  func(workflow.Context) error
}

// Defer registers the undo of the step that is about to run.
func (s *Saga) Defer(u Undo) { s.undos = append(s.undos, u) }

// Drop removes the undo that was registered last.
func (s *Saga) Drop() { s.undos = s.undos[:len(s.undos)-1] }

// Commit removes all undos: Unwind does nothing after it.
func (s *Saga) Commit() { s.committed = true }

// Unwind runs the undos on a context that a cancel does not reach. One that fails is
// tried again, for ever, at growing intervals, and holds up only those at its place
// and those of Last.
func (s *Saga) Unwind(ctx workflow.Context) {
	if s.committed {
		return
	}
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	ctx = WithUndo(ctx)
	undos := s.undos
	s.undos = nil
	running := map[string][]Undo{}
	flush := func() {
		all := workflow.NewWaitGroup(ctx)
		for _, place := range workflow.DeterministicKeys(running) {
			all.Add(1)
			workflow.Go(ctx, func(ctx workflow.Context) {
				defer all.Done()
				for _, u := range running[place] {
					_ = RetryForever(ctx, u.Run)
				}
			})
		}
		all.Wait(ctx)
		clear(running)
	}
	for i := len(undos) - 1; i >= 0; i-- {
		u := undos[i]
		if u.Last {
			flush()
		}
		running[u.Place] = append(running[u.Place], u)
		if u.Last {
			flush()
		}
	}
	flush()
}

const (
	firstRetryWait = 5 * time.Second
	longRetryWait  = 10 * time.Minute
	// patientRetries is how many waits are no longer than longRetryWait: some two hours.
	patientRetries   = 16
	longestRetryWait = time.Hour
)

// RetryForever runs do until it succeeds, at growing intervals. It gives up only when ctx
// is cancelled. An outage is waited for by the activities that do calls, at no cost; what
// comes here is what no retry of theirs mends, so in the end it is tried once an hour: each
// try is written down in the history, which has room for many months of that (A12).
func RetryForever(ctx workflow.Context, do func(workflow.Context) error) error {
	wait := firstRetryWait
	for retry := 1; ; retry++ {
		err := do(ctx)
		if err == nil {
			return nil
		}
		workflow.GetLogger(ctx).Error("will be tried again", "in", wait, "error", err)
		if err := workflow.Sleep(ctx, wait); err != nil {
			return err
		}
		longest := longRetryWait
		if retry >= patientRetries {
			longest = longestRetryWait
		}
		wait = min(2*wait, longest)
	}
}
