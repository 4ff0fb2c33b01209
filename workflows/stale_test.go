package workflows_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/activities/domain"
	"strongroom/compute"
	"strongroom/durable"
)

// After an outage of the database no host has reported itself lately, though all of them
// answer: what an operation must undo there is done at once.
func TestAHostWithoutALateReportIsAsked(t *testing.T) {
	t.Parallel()
	for name, s := range subjects {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whole, last := failingLate(t, name)
			b := s.setup(t)
			for _, h := range b.hosts {
				b.stale[h] = true
			}
			in := b.accept(s.kind, s.task, s.arguments)
			b.fault = at(whole[last], fault{after: fail})
			require.Equal(t, errBroken.Message, durable.FromTemporal(b.run(s.kind, in, nil)).Message)
			for _, thing := range b.ledger {
				require.NotEqual(t, compute.BlockedByHost, thing.BlockedBy, thing.Name)
			}
			b.fault = nil
			vm, power := s.undone(whole, last, true)
			b.early(in, s, compute.OperationFailed, vm, power)
		})
	}
}

// An undo that is on no ledger and cannot be tried, since its host is down, says so.
func TestAnUndoThatIsNotTriedSaysSo(t *testing.T) {
	t.Parallel()
	for name, v := range map[string]struct{ fails, undo string }{
		"pause":                        {domain.Pause.Name, "undo_pause_domain"},
		"unpause":                      {domain.Unpause.Name, "undo_unpause_domain"},
		"snapshot of a running server": {domain.Export.Name, "undo_export_disk"},
		"rebuild":                      {domain.Start.Name, "undo_stop_domain"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := subjects[name]
			b := s.setup(t)
			in := b.accept(s.kind, s.task, s.arguments)
			b.fault = at(call{name: v.fails, nth: 1}, fault{after: func() error {
				b.mu.Lock()
				defer b.mu.Unlock()
				b.down[b.hosts[0]] = true
				return errBroken
			}})
			require.Error(t, b.run(s.kind, in, nil))
			told := b.events[eventKey(in, v.undo, b.host(0))]
			require.True(t, strings.HasPrefix(told, "done: not undone: "), "%q", told)
		})
	}
}
