package workflows_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

// lost is the end of a call that did its work and whose worker died before it could say so.
func lost() error { return compute.Errorf(compute.Unavailable, "its worker died") }

// twice has every call run twice.
func twice(c call) fault {
	if c.attempt > 1 {
		return fault{}
	}
	return fault{after: lost}
}

// ranTwice requires that every call ran twice, but for the first ones and those beside them.
func (b *bench) ranTwice(first []call) {
	b.t.Helper()
	times := map[string][3]int{} // by attempt
	for _, c := range b.calls {
		if isOneOf(first, c) {
			continue
		}
		require.LessOrEqual(b.t, c.attempt, 2, c)
		attempts := times[c.name]
		attempts[c.attempt]++
		times[c.name] = attempts
	}
	require.NotEmpty(b.t, times)
	for name, attempts := range times {
		require.Equal(b.t, attempts[1], attempts[2], name)
	}
}

// isOneOf reports whether a call is one of those, whatever the attempt.
func isOneOf(calls []call, c call) bool {
	return slices.ContainsFunc(calls, func(one call) bool { return one.name == c.name && one.nth == c.nth })
}

// The reply of every call is lost, so every activity runs twice.
func TestEveryActivityRunsTwice(t *testing.T) {
	t.Parallel()
	for name, s := range subjects {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := s.setup(t)
			in := b.accept(s.kind, s.task, s.arguments)
			b.fault = twice
			require.NoError(t, b.run(s.kind, in, nil))
			b.ranTwice(nil)
			b.fault = nil
			b.whole(in, s.kind)
		})
	}
}

// The reply of one call is lost.
func TestAnyActivityRunsTwice(t *testing.T) {
	t.Parallel()
	each(t, everyTime, func(t *testing.T, s subject, calls []call, index int) {
		b := s.setup(t)
		in := b.accept(s.kind, s.task, s.arguments)
		b.fault = at(calls[index], fault{after: lost})
		require.NoError(t, b.run(s.kind, in, nil))
		b.whole(in, s.kind)
	})
}

// failingLate has a subject's operation fail at its very end, when all of it is to be undone: at
// the call that it gives, by its index in the calls of an undisturbed run.
func failingLate(t *testing.T, name string) (whole []call, last int) {
	t.Helper()
	whole = undisturbed(t)[name]
	return whole, subjects[name].decision(whole) - 1
}

// The operation fails at its very end, and the reply of every call of its undo is lost.
func TestEveryUndoRunsTwice(t *testing.T) {
	t.Parallel()
	for name, s := range subjects {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whole, last := failingLate(t, name)
			b := s.setup(t)
			in := b.accept(s.kind, s.task, s.arguments)
			failed := false
			b.fault = func(c call) fault {
				b.mu.Lock()
				defer b.mu.Unlock()
				switch {
				case failed && isOneOf(whole[:last], c):
					return fault{} // it was under way beside the one that failed
				case failed:
					return twice(c)
				case c.name == whole[last].name && c.nth == whole[last].nth:
					failed = true
					return fault{after: fail}
				}
				return fault{}
			}
			require.Equal(t, errBroken.Message, durable.FromTemporal(b.run(s.kind, in, nil)).Message)
			b.ranTwice(whole[:last+1])
			vm, power := s.undone(whole, last, false)
			b.early(in, s, compute.OperationFailed, vm, power)
		})
	}
}

// A delete is undone by nobody, so it must bear the same; and what it leaves to the
// janitor goes when that runs twice too.
func TestEveryActivityOfADeleteRunsTwice(t *testing.T) {
	t.Parallel()
	b := spawned(t)
	in := b.deletion()
	b.fault = twice
	require.NoError(t, b.run(compute.OpDelete, in, nil))
	b.ranTwice(nil)
	b.gone(in)

	b = delegated(t)
	require.NoError(t, b.run(compute.OpCreate, b.accept(compute.OpCreate, compute.TaskScheduling, nil), nil))
	b.forget()
	b.refuses = everybody
	in = b.deletion()
	require.NoError(t, b.run(compute.OpDelete, in, nil))
	b.waits(5)
	b.refuses = func(compute.Credential) bool { return false }
	b.forget()
	b.fault = twice
	b.reaps(4, 1)
	b.reaps(1, 0)
	b.ranTwice(nil)
	b.gone(in)
}

// repeats has the world do again, before each call of another queue, the local activities
// since the one before: their control worker died before the workflow task was on record,
// and another one ran it again.
type repeats struct {
	on   bool
	task []repeat
	n    int // how many ran again
}

type repeat struct {
	name  string
	again func() (answer string, err error)
	was   string
	err   error
}

// repeated notes a local activity, which runs again at the end of its workflow task.
func repeated[I, O any](ctx context.Context, w *world, name string, do func(context.Context, I) (O, error), in I, out O, err error) {
	if !w.repeats.on {
		return
	}
	w.repeats.task = append(w.repeats.task, repeat{name: name, was: detailOf(out), err: err, again: func() (string, error) {
		out, err := do(ctx, in)
		return detailOf(out), err
	}})
}

// workflowTask ends a workflow task, whose local activities run again. Each must answer
// as it did, or the workflow would go another way than what it did.
func (w *world) workflowTask() {
	task := w.repeats.task
	w.repeats.task = nil
	for _, r := range task {
		w.repeats.n++
		answer, err := r.again()
		// What begins again finds what it did after it began.
		if (err == nil) != (r.err == nil) || answer != r.was && r.name != record.Begin.Name {
			w.broken = append(w.broken, r.name+" answers another time: "+answer+", and not "+r.was)
		}
	}
}

// The control worker dies at the end of every workflow task.
func TestEveryWorkflowTaskRunsTwice(t *testing.T) {
	t.Parallel()
	for name, s := range subjects {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := s.setup(t)
			in := b.accept(s.kind, s.task, s.arguments)
			b.repeats = repeats{on: true}
			require.NoError(t, b.run(s.kind, in, nil))
			b.workflowTask()
			require.Greater(t, b.repeats.n, 2)
			b.repeats = repeats{}
			b.whole(in, s.kind)
		})
		t.Run(name+", undone", func(t *testing.T) {
			t.Parallel()
			whole, last := failingLate(t, name)
			b := s.setup(t)
			in := b.accept(s.kind, s.task, s.arguments)
			b.repeats = repeats{on: true}
			b.fault = at(whole[last], fault{after: fail})
			require.Equal(t, errBroken.Message, durable.FromTemporal(b.run(s.kind, in, nil)).Message)
			b.workflowTask()
			require.Greater(t, b.repeats.n, 2)
			b.repeats = repeats{}
			vm, power := s.undone(whole, last, false)
			b.early(in, s, compute.OperationFailed, vm, power)
		})
	}
}
