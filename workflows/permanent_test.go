package workflows_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"strongroom/activities/disk"
	"strongroom/activities/domain"
	"strongroom/compute"
	"strongroom/durable"
)

// permanent are the kinds of failures that no retry of an activity mends; "" is an error
// without a kind, which ends its retries too.
var permanent = []compute.Kind{
	compute.Invalid, compute.Conflict, compute.NotFound, compute.Forbidden, compute.Corrupt, compute.NoHost, compute.Superseded, "",
}

// How long an undo may go on that fails for good: what may be mended meanwhile, or starts
// the server again, is tried for longer.
const (
	mostOfAnUndo = 2 * time.Hour
	mostIfFinal  = 10 * time.Minute
)

func mostOf(undo string, kind compute.Kind) time.Duration {
	if undo == domain.Start.Name || undo == disk.CreateConfigDrive.Name || slices.Contains([]compute.Kind{compute.Conflict, compute.NoHost, ""}, kind) {
		return mostOfAnUndo
	}
	return mostIfFinal
}

// whileItFails has every call of a name end in an error of a kind, from the call on at which
// the operation fails (last; nil: from the beginning).
func (b *bench) whileItFails(name string, kind compute.Kind, last *call) {
	began := last == nil
	b.fault = func(c call) fault {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch {
		case !began && c.name == last.name && c.nth == last.nth:
			began = true
			return fault{after: fail}
		case began && c.name == name && !c.local:
			return fault{before: func() error { return compute.Errorf(kind, "it does not go") }}
		}
		return fault{}
	}
}

// leavesOnlyWhatWaits requires that everything that is left of what was to go waits, and
// says why.
func (b *bench) leavesOnlyWhatWaits(kind compute.Kind) {
	b.t.Helper()
	require.Empty(b.t, b.broken)
	for _, f := range b.audit() {
		require.Contains(b.t, []compute.Verdict{compute.Waiting, compute.Behind, compute.Failing}, f.What, "%+v", f)
	}
	for _, row := range b.ledger {
		if row.State != compute.ThingWaiting {
			continue
		}
		require.NotEmpty(b.t, row.Reason)
		if row.BlockedBy == compute.BlockedByThings {
			continue
		}
		want := compute.BlockedByError
		if kind == compute.Forbidden && !row.OnHost() {
			want = compute.BlockedByCredential
		}
		require.Equal(b.t, want, row.BlockedBy, "%+v", row)
	}
}

// undoing gives the names of the calls with which an operation undoes itself.
func (s subject) undoing(t *testing.T, last call) []string {
	b := s.setup(t)
	in := b.accept(s.kind, s.task, s.arguments)
	b.fault = at(last, fault{after: fail})
	require.Error(t, b.run(s.kind, in, nil))
	calls := b.names()
	failed := slices.IndexFunc(calls, func(c call) bool { return c.name == last.name && c.nth == last.nth })
	var names []string
	for _, c := range calls[failed+1:] {
		if !c.local && !slices.Contains(names, c.name) {
			names = append(names, c.name)
		}
	}
	return names
}

// H9: whatever an undo fails with, for ever, the operation ends; what could not be removed
// waits, and a delete afterwards removes the server and, once it can be, the rest.
func TestH9AnUndoThatFailsForGoodHoldsNoOperation(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"spawn delegated", "spawn of an encrypted image", "snapshot of a running server", "backup", "stop", "reboot hard", "pause",
		"rebuild with delegation", "rotation of a running server", "rescue", "unrescue from an encrypted image",
	} {
		s := subjects[name]
		whole, last := failingLate(t, name)
		for _, undo := range s.undoing(t, whole[last]) {
			for _, kind := range permanent {
				t.Run(fmt.Sprintf("%s/%s/%s", name, undo, kind), func(t *testing.T) {
					t.Parallel()
					b := s.setup(t)
					in := b.accept(s.kind, s.task, s.arguments)
					b.whileItFails(undo, kind, &whole[last])
					var env *testsuite.TestWorkflowEnvironment
					var began time.Time
					err := b.run(s.kind, in, func(e *testsuite.TestWorkflowEnvironment) { env, began = e, e.Now() })
					require.Equal(t, errBroken.Message, durable.FromTemporal(err).Message)
					require.Equal(t, compute.OperationFailed, b.operations[in.Operation].State)
					require.Empty(t, b.row.current)
					require.Less(t, env.Now().Sub(began), mostOf(undo, kind))
					b.leavesOnlyWhatWaits(kind)

					b.forget()
					deletion := b.deletion()
					require.NoError(t, b.run(compute.OpDelete, deletion, nil))
					b.reapAll()
					b.gone(deletion)
				})
			}
		}
	}
}

// H9: whatever a removal fails with, for ever, the delete ends at once: the server is gone,
// the rest waits and goes when it can.
func TestH9ARemovalThatFailsForGoodHoldsNoDelete(t *testing.T) {
	t.Parallel()
	for name, setup := range map[string]func(*testing.T) *bench{"encrypted": spawned, "delegated": func(t *testing.T) *bench {
		b := delegated(t)
		require.NoError(t, b.run(compute.OpCreate, b.accept(compute.OpCreate, compute.TaskScheduling, nil), nil))
		b.forget()
		return b
	}} {
		for _, removed := range compute.TeardownOrder {
			for _, kind := range permanent {
				t.Run(fmt.Sprintf("%s/%s/%s", name, removed, kind), func(t *testing.T) {
					t.Parallel()
					b := setup(t)
					b.whileItFails(removal(removed), kind, nil)
					in := b.deletion()
					require.NoError(t, b.run(compute.OpDelete, in, nil))
					require.True(t, b.row.deleted)
					require.Equal(t, compute.OperationSucceeded, b.operations[in.Operation].State)
					b.leavesOnlyWhatWaits(kind)
					b.fault = nil
					b.reapAll()
					b.gone(in)
				})
			}
		}
	}
}
