package workflows_test

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"strongroom/activities/disk"
	"strongroom/activities/domain"
	"strongroom/compute"
	"strongroom/durable"
)

// M5: an image that may have changed is checked by an activity of its own, in a slot for
// long work, between two starts.
func TestM5AnImageIsCheckedBesideTheStart(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"start", "reboot hard", "rescue", "spawn of an encrypted image"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := subjects[name]
			b := s.setup(t)
			in := b.accept(s.kind, s.task, s.arguments)
			b.touched = 2
			require.NoError(t, b.run(s.kind, in, nil))
			var calls []string
			for _, c := range b.names() {
				if c.name == domain.Start.Name || c.name == disk.CheckImage.Name {
					calls = append(calls, c.name)
				}
			}
			require.Equal(t, []string{domain.Start.Name, disk.CheckImage.Name, domain.Start.Name, disk.CheckImage.Name, domain.Start.Name}, calls)
			require.Empty(t, b.broken)
			require.Empty(t, b.audit())
		})
	}
}

// M5: one that somebody writes to all the time starts no server, and holds no operation.
func TestM5AnImageThatAlwaysChangesEndsTheOperation(t *testing.T) {
	t.Parallel()
	b := stopped(t)
	b.touched = 1000
	err := b.run(compute.OpStart, b.accept(compute.OpStart, compute.TaskPoweringOn, nil), nil)
	require.ErrorContains(t, err, "changes again and again")
	require.Equal(t, 3, b.count(disk.CheckImage.Name))
	require.Empty(t, b.row.current)
}

// checkedInAnUndo rescues a server whose new domain does not start. From then on the host takes
// no long work, or none at all, and its copy of the image has changed, so that the old domain
// starts once that was checked. It gives the server's bench and how long the undo took.
func checkedInAnUndo(t *testing.T, s *silence, check fault) (*bench, time.Duration) {
	t.Helper()
	b, took, err := rescuedInVain(t, s, map[string]func(b *bench) fault{disk.CheckImage.Name: func(*bench) fault { return check }})
	require.Equal(t, errBroken.Message, durable.FromTemporal(err).Message)
	require.Empty(t, b.row.current)
	waits := slices.ContainsFunc(slices.Collect(maps.Values(b.ledger)), func(t compute.Thing) bool { return t.State == compute.ThingWaiting })
	require.Equal(t, s.quick, waits, "whether something waits for a silent host")
	return b, took
}

// rescuedInVain is checkedInAnUndo for any end of the operation. faults are those of calls
// by their names.
func rescuedInVain(t *testing.T, s *silence, faults map[string]func(b *bench) fault) (*bench, time.Duration, error) {
	t.Helper()
	of := subjects["rescue"]
	b := of.setup(t)
	in := b.accept(of.kind, of.task, of.arguments)
	var began atomic.Bool
	s.hosts, s.since, s.tried = b.hosts[:1], &began, &atomic.Int32{}
	var env *testsuite.TestWorkflowEnvironment
	var failed time.Time
	b.fault = func(c call) fault {
		switch {
		case faults[c.name] != nil:
			return faults[c.name](b)
		case c.name == domain.Start.Name && c.nth == 1:
			return fault{before: func() error { return errBroken }}
		case c.name == domain.Start.Name && c.nth == 2: // the old one's, from here on
			b.touched, failed = 1, env.Now()
			began.Store(true)
		}
		return fault{}
	}
	err := b.run(of.kind, in, func(e *testsuite.TestWorkflowEnvironment) {
		env = e
		silenced(s)(e)
	})
	require.Empty(t, b.broken)
	require.Positive(t, s.tried.Load())
	return b, env.Now().Sub(failed), err
}

// H6: a host whose slots for long work are all taken is not silent to an undo. The guest that
// ran before runs again once its image is checked.
func TestH6AnUndoWaitsForASlotOfABusyHost(t *testing.T) {
	t.Parallel()
	for _, times := range []int32{1, 10} {
		b, _ := checkedInAnUndo(t, &silence{times: times}, fault{})
		require.Equal(t, []compute.PowerState{compute.PowerRunning}, b.power())
		require.Equal(t, compute.VMActive, b.row.server.VMState)
		require.Equal(t, 1, b.count(disk.CheckImage.Name))
		require.Equal(t, int(times), b.count(disk.Ping.Name))
		require.Empty(t, b.audit())
		b.reaps(0, 0)
	}
}

// H6: it does not wait for ever. The server is stopped then, and its host is not taken for a
// silent one: nothing waits for it.
func TestH6AnUndoDoesNotWaitForASlotForEver(t *testing.T) {
	t.Parallel()
	for name, v := range map[string]struct {
		s     *silence
		check fault
	}{
		"no slot":         {&silence{}, fault{}},
		"never at an end": {&silence{times: 1}, fault{before: func() error { return compute.Errorf(compute.Unavailable, "another one checks it") }}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, took := checkedInAnUndo(t, v.s, v.check)
			require.Greater(t, took, 30*time.Minute)
			require.Less(t, took, 150*time.Minute)
			require.Equal(t, compute.VMStopped, b.row.server.VMState)
			require.Equal(t, []compute.PowerState{compute.PowerShutdown}, b.power())
			require.Empty(t, b.audit())
			b.reaps(0, 0)
		})
	}
}

// H9: a delete does not wait until an undo has had a slot of a busy host: other projects may
// take all of them for hours.
func TestH9ADeleteDoesNotWaitForASlotOfAnUndo(t *testing.T) {
	t.Parallel()
	var asked sync.Once
	var deletion durable.OperationInput
	b, took, _ := rescuedInVain(t, &silence{}, map[string]func(b *bench) fault{disk.Ping.Name: func(b *bench) fault {
		return fault{before: func() error {
			asked.Do(func() { deletion = b.deletion() })
			return nil
		}}
	}})
	require.Equal(t, deletion.Operation, b.row.current)
	require.Less(t, took, 10*time.Minute)
	require.Zero(t, b.count(disk.CheckImage.Name))
	require.NoError(t, b.run(compute.OpDelete, deletion, nil))
	b.gone(deletion)
}

// H6, A2: a host that takes no work at all holds up no undo for that.
func TestH6ADeadHostHoldsUpNoCheckOfAnUndo(t *testing.T) {
	t.Parallel()
	b, took := checkedInAnUndo(t, &silence{quick: true}, fault{})
	require.LessOrEqual(t, took, durable.HostSilence+30*time.Second)
	require.Equal(t, compute.VMStopped, b.row.server.VMState)
	require.Zero(t, b.count(disk.CheckImage.Name))
}
