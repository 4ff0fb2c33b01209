package workflows_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"strongroom/activities/domain"
	"strongroom/activities/image"
	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

// mostCalls bounds the calls of an operation whose undo always fails, far below what a
// history may have (51,200 events; a call has three to five).
const mostCalls = 200

// A12: an undo whose activities fail for ever ends: what it was to remove waits on the
// ledger. The janitor gets it done when they fail no more.
func TestA12AnUndoThatAlwaysFailsEnds(t *testing.T) {
	t.Parallel()
	for name, s := range subjects {
		if s.kind == compute.OpStart || s.kind == compute.OpStop || s.kind == compute.OpReboot {
			continue // they make nothing
		}
		for how, failure := range map[string]error{
			"refused": errBroken, "full": compute.Errorf(compute.NoHost, "no room"), "away": compute.Errorf(compute.Unavailable, "away"),
		} {
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				whole, last := failingLate(t, name)
				b := s.setup(t)
				in := b.accept(s.kind, s.task, s.arguments)
				undoing := false
				b.fault = func(c call) fault {
					b.mu.Lock()
					defer b.mu.Unlock()
					switch {
					case c.name == whole[last].name && c.nth == whole[last].nth && c.attempt == 1:
						undoing = true
						return fault{after: fail}
					case undoing && isOneOf(whole[:last], c):
						return fault{} // it was under way beside the one that failed
					case undoing && !c.local:
						return fault{before: func() error { return failure }}
					}
					return fault{}
				}
				var env *testsuite.TestWorkflowEnvironment
				var began time.Time
				err := b.run(s.kind, in, func(e *testsuite.TestWorkflowEnvironment) { env, began = e, e.Now() })
				require.Equal(t, errBroken.Message, durable.FromTemporal(err).Message)
				require.Less(t, len(b.names()), mostCalls)
				require.Less(t, env.Now().Sub(began), 12*time.Hour)
				require.Equal(t, compute.OperationFailed, b.operations[in.Operation].State)
				require.Empty(t, b.row.current, "its server is free")
				for _, thing := range b.ledger {
					require.NotEqual(t, compute.ThingIntended, thing.State, thing.Name)
				}
				b.fault = nil
				b.reapAll()
				require.Empty(t, b.audit())
				require.Empty(t, b.lent)
			})
		}
	}
}

// A12: what an operation clears up after its point of no return, or a delete removes, is
// tried for a while and then waits.
func TestA12ACleanUpThatAlwaysFailsEnds(t *testing.T) {
	t.Parallel()
	for name, s := range subjects {
		if s.decides == "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := s.setup(t)
			in := b.accept(s.kind, s.task, s.arguments)
			b.fault = b.failingAfter(s.decides)
			require.NoError(t, b.run(s.kind, in, nil))
			require.Less(t, len(b.names()), mostCalls)
			require.Equal(t, compute.OperationSucceeded, b.operations[in.Operation].State)
			b.fault = nil
			b.reapAll()
			require.Empty(t, b.broken)
			require.Empty(t, b.lent)
		})
	}
	t.Run("delete", func(t *testing.T) {
		t.Parallel()
		b := spawned(t)
		in := b.deletion()
		b.fault = b.failingAfter(record.Begin.Name)
		require.NoError(t, b.run(compute.OpDelete, in, nil))
		require.Less(t, len(b.names()), mostCalls)
		b.fault = nil
		b.gone(in)
	})
}

// failingAfter has every call fail that removes or stops something, once an activity was called.
func (b *bench) failingAfter(name string) func(call) fault {
	begun := false
	return func(c call) fault {
		b.mu.Lock()
		defer b.mu.Unlock()
		begun = begun || c.name == name
		stops := c.name == domain.Stop.Name || c.name == image.OldBackups.Name || strings.HasPrefix(c.name, "remove ")
		if begun && stops {
			return fault{before: fail}
		}
		return fault{}
	}
}
