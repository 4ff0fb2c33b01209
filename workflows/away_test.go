package workflows_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"strongroom/activities/domain"
	"strongroom/compute"
	"strongroom/durable"
)

// How long an undo or a delete may go on under an outage that does not end: a place is tried
// for a quarter of an hour, once; a server is started again for an hour at most.
const (
	mostOfAnOutage  = 16 * time.Minute
	mostOfAnOutages = 80 * time.Minute // of all services: one after another
)

// leavesWhatWaits requires that everything that is left waits, with a reason.
func (b *bench) leavesWhatWaits() {
	b.t.Helper()
	require.Empty(b.t, b.broken)
	for _, f := range b.audit() {
		require.Contains(b.t, []compute.Verdict{compute.Waiting, compute.Behind, compute.Failing, compute.Stranded}, f.What, "%+v", f)
	}
	for _, row := range b.ledger {
		if row.State == compute.ThingWaiting {
			require.NotEmpty(b.t, row.Reason)
			require.Contains(b.t, []compute.Blocker{compute.BlockedByError, compute.BlockedByThings, compute.BlockedByHost, compute.BlockedByTime}, row.BlockedBy, "%+v", row)
		}
	}
}

// timed runs an operation, and gives how long it took and what it ended with.
func (b *bench) timed(kind compute.OperationKind, in durable.OperationInput) (time.Duration, error) {
	b.t.Helper()
	var env *testsuite.TestWorkflowEnvironment
	var began time.Time
	err := b.run(kind, in, func(e *testsuite.TestWorkflowEnvironment) { env, began = e, e.Now() })
	return env.Now().Sub(began), err
}

// H9: a place that stays away, however it says so, holds up an undo as long as it is tried
// once. Everything else goes meanwhile; what is there waits on the ledger.
func TestH9AnUndoWhoseServiceStaysAwayEnds(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"spawn delegated", "spawn of an encrypted image", "snapshot of a running server", "backup", "stop", "reboot hard", "pause",
		"rebuild with delegation", "rotation of a running server", "rescue", "unrescue from an encrypted image",
	} {
		s := subjects[name]
		whole, last := failingLate(t, name)
		for _, undo := range s.undoing(t, whole[last]) {
			t.Run(fmt.Sprintf("%s/%s", name, undo), func(t *testing.T) {
				t.Parallel()
				b := s.setup(t)
				in := b.accept(s.kind, s.task, s.arguments)
				b.whileItFails(undo, compute.Unavailable, &whole[last])
				took, err := b.timed(s.kind, in)
				require.Equal(t, errBroken.Message, durable.FromTemporal(err).Message)
				require.Equal(t, compute.OperationFailed, b.operations[in.Operation].State)
				require.Empty(t, b.row.current)
				most := mostOfAnOutage
				if undo == domain.Start.Name {
					most += time.Hour
				}
				require.Less(t, took, most)
				b.leavesWhatWaits()

				b.forget()
				deletion := b.deletion()
				require.NoError(t, b.run(compute.OpDelete, deletion, nil))
				b.reapAll()
				b.gone(deletion)
			})
		}
	}
}

// H9: so with all places at once.
func TestH9AnUndoInAnOutageOfEverythingEnds(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"spawn delegated", "spawn of an encrypted image", "snapshot of a running server", "rescue", "rotation of a running server"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := subjects[name]
			whole, last := failingLate(t, name)
			b := s.setup(t)
			in := b.accept(s.kind, s.task, s.arguments)
			began := false
			b.fault = func(c call) fault {
				b.mu.Lock()
				defer b.mu.Unlock()
				switch {
				case c.local, strings.HasPrefix(c.name, "record."), strings.HasPrefix(c.name, "ledger."):
				case !began && c.name == whole[last].name && c.nth == whole[last].nth:
					began = true
					return fault{after: fail}
				case began:
					return fault{before: func() error { return compute.Errorf(compute.Unavailable, "nothing answers") }}
				}
				return fault{}
			}
			took, err := b.timed(s.kind, in)
			require.Equal(t, errBroken.Message, durable.FromTemporal(err).Message)
			require.Empty(t, b.row.current)
			require.Less(t, took, mostOfAnOutages)
			b.leavesWhatWaits()
			b.forget()
			deletion := b.deletion()
			require.NoError(t, b.run(compute.OpDelete, deletion, nil))
			b.reapAll()
			b.gone(deletion)
		})
	}
}

// H9: a delete under an outage that does not end removes what is elsewhere, and ends.
func TestH9ADeleteWhoseServiceStaysAwayEnds(t *testing.T) {
	t.Parallel()
	for _, removed := range slices.Concat(compute.TeardownOrder, []compute.ThingKind{"everything"}) {
		t.Run(string(removed), func(t *testing.T) {
			t.Parallel()
			b := spawned(t)
			b.fault = func(c call) fault {
				if c.name == removal(removed) || removed == "everything" && strings.HasPrefix(c.name, "remove ") {
					return fault{before: func() error { return compute.Errorf(compute.Unavailable, "it does not answer") }}
				}
				return fault{}
			}
			in := b.deletion()
			took, err := b.timed(compute.OpDelete, in)
			require.NoError(t, err)
			require.True(t, b.row.deleted)
			require.Less(t, took, 2*mostOfAnOutage, "its host, then the cloud")
			b.leavesWhatWaits()
			b.fault = nil
			b.reapAll()
			b.gone(in)
		})
	}
}
