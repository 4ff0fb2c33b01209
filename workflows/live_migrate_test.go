package workflows_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"strongroom/activities/domain"
	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

func (b *bench) live(kindOf func(*testsuite.TestWorkflowEnvironment)) error {
	b.t.Helper()
	return b.run(compute.OpLiveMigrate, b.accept(compute.OpLiveMigrate, compute.TaskMigrating, compute.LiveMigrateArguments{}), kindOf)
}

// runsOnce requires that the server runs once, on the host that the record says, where it has all
// that it is made of, and that nothing else is anywhere.
func (b *bench) runsOnce(index int) {
	b.t.Helper()
	b.reapAll()
	require.Empty(b.t, b.broken)
	require.Empty(b.t, b.audit())
	require.Empty(b.t, b.lent)
	require.Equal(b.t, []string{b.row.server.Host.String()}, b.hostsOfGuest())
	require.Equal(b.t, b.hosts[index], *b.row.server.Host)
	require.Equal(b.t, compute.VMActive, b.row.server.VMState)
	require.Equal(b.t, compute.PowerRunning, b.row.server.PowerState)
	require.Empty(b.t, b.row.current)
	b.isWhatItIs()
}

// TPM-20, EE-29: a guest goes over, with its TPM's state; its keys are those that it had.
func TestLiveMigrate(t *testing.T) {
	t.Parallel()
	b := spawned(t)
	state, keys := b.state(), len(b.secrets)
	require.NoError(t, b.live(nil))
	b.runsOnce(1)
	require.Equal(t, state, b.state())
	require.Len(t, b.secrets, keys)
}

// TPM-20: where whoever asks may not read the keys, the new host has them of the old one, which keeps
// them; where that does not, nothing moves.
func TestLiveMigrateByWhoMayNotReadTheKeys(t *testing.T) {
	t.Parallel()
	for name, keeps := range map[string]bool{"kept": true, "not kept": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := spawned(t)
			b.unreadable, b.keeps = true, keeps
			keys := len(b.secrets)
			b.readWith = nil
			err := b.live(nil)
			b.unreadable = false
			if keeps {
				require.NoError(t, err)
				b.runsOnce(1)
				require.Equal(t, []compute.Credential{compute.KeptCredential()}, b.readWith)
			} else {
				require.Equal(t, compute.Conflict, durable.FromTemporal(err).Kind, "%v", err)
				b.runsOnce(0)
			}
			require.Len(t, b.secrets, keys)
		})
	}
}

// EE-29: whatever fails or is cancelled at whichever call, the guest runs once: where it was, or, once
// it has gone over, on the new host.
func TestALiveMigrationThatFailsRunsOnce(t *testing.T) {
	t.Parallel()
	first := spawned(t)
	require.NoError(t, first.live(nil))
	calls := first.names()
	over := false
	for _, c := range calls {
		over = over || c.name == domain.Migrate.Name
		for what, f := range map[string]func(*testsuite.TestWorkflowEnvironment) fault{
			"fails before": func(*testsuite.TestWorkflowEnvironment) fault { return fault{before: fail} },
			"fails after":  func(*testsuite.TestWorkflowEnvironment) fault { return fault{after: fail} },
			"cancelled": func(e *testsuite.TestWorkflowEnvironment) fault {
				return fault{after: func() error { e.CancelWorkflow(); return nil }}
			},
			"cancelled, not": func(e *testsuite.TestWorkflowEnvironment) fault {
				return fault{before: func() error { e.CancelWorkflow(); return temporal.NewCanceledError() }}
			},
		} {
			done := over && (c.name != domain.Migrate.Name || what == "fails after" || what == "cancelled")
			if c.name == record.Begin.Name || c.local && what == "cancelled, not" {
				continue // what never began is TestAFailureAnywhereIsUndone's
			}
			t.Run(c.String()+"/"+what, func(t *testing.T) {
				t.Parallel()
				b := spawned(t)
				err := b.live(func(env *testsuite.TestWorkflowEnvironment) { b.fault = at(c, f(env)) })
				if done {
					require.NoError(t, err)
					b.runsOnce(1)
					return
				}
				require.Error(t, err)
				b.runsOnce(0)
			})
		}
	}
}

// A guest that was halted on its way, and did not come, goes on where it was; nobody decides before the
// new host has said so.
func TestALiveMigrationThatIsLostGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	b := spawned(t)
	b.lost = true
	asked := 0
	b.fault = func(c call) fault {
		if c.name == domain.Arrived.Name {
			asked++
			if asked < 4 {
				return fault{before: func() error { return compute.Errorf(compute.Unavailable, "away") }}
			}
		}
		return fault{}
	}
	require.Equal(t, compute.Unavailable, durable.FromTemporal(b.live(nil)).Kind)
	require.GreaterOrEqual(t, asked, 4)
	b.runsOnce(0)
}

// A server whose old host dies while it is on its way waits for that host, since its guest may go on
// there, until an operator says that the host is fenced: then it is in ERROR, with nothing left on the
// new host, and is evacuated.
func TestAServerWhoseHostDiesInALiveMigrationIsEvacuated(t *testing.T) {
	t.Parallel()
	b := spawned(t)
	from := b.hosts[0]
	b.lost = true
	asked := 0
	b.fault = func(c call) fault {
		if c.name != domain.Departed.Name {
			return fault{}
		}
		if asked++; asked == 5 {
			b.down[from], b.forced[from], b.fencedOff[from] = true, true, true
		}
		return fault{before: func() error { return compute.Errorf(compute.Unavailable, "it has no power") }}
	}
	require.Equal(t, compute.Unavailable, durable.FromTemporal(b.live(nil)).Kind)
	require.GreaterOrEqual(t, asked, 5, "it waited for its host")
	require.Equal(t, compute.VMError, b.row.server.VMState)
	require.Equal(t, from, *b.row.server.Host)
	for _, thing := range b.listed() {
		require.NotEqual(t, b.hosts[1].String(), thing.Place, "%v", thing)
	}
	require.NoError(t, b.evacuateIt(compute.EvacuateArguments{}))
	b.down[from], b.forced[from] = false, false
	b.runsOnce(1)
}
