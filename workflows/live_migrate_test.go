package workflows_test

import (
	"slices"
	"testing"

	"github.com/google/uuid"
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
	b.portsFollow()
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
	b.imageGone = true // the host that it leaves has a copy
	state, keys := b.state(), len(b.secrets)
	require.NoError(t, b.live(nil))
	b.runsOnce(1)
	require.Equal(t, state, b.state())
	require.Len(t, b.secrets, keys)
}

// TPM-20, EE-30: where whoever asks may not read the key of the vTPM, or those of the disks, the new host has them of the old one, which keeps
// them; where that does not, nothing moves. The keys of disks take the access of whoever asks unless the host keeps these, too.
func TestLiveMigrateByWhoMayNotReadTheKeys(t *testing.T) {
	t.Parallel()
	all, tpmAlone := []compute.KeyPart{compute.KeysOfDisks, compute.KeyOfTPM}, []compute.KeyPart{compute.KeyOfTPM}
	for name, v := range map[string]struct {
		keeps, unread []compute.KeyPart
		fails         compute.Kind
		kept          []compute.KeyPart // that the old host hands on
	}{
		"all kept":                  {all, all, "", all},
		"none kept":                 {nil, all, compute.Forbidden, nil},
		"that of the vTPM kept":     {tpmAlone, all, compute.Forbidden, nil},
		"his disks":                 {tpmAlone, tpmAlone, "", tpmAlone},
		"his disks, none kept":      {nil, tpmAlone, compute.Conflict, nil},
		"his vTPM":                  {all, all[:1], "", all[:1]},
		"his vTPM, its key kept":    {tpmAlone, all[:1], compute.Forbidden, nil},
		"his own, whatever is kept": {all, nil, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := spawned(t)
			b.keeps, b.unread = v.keeps, map[compute.SecretID]bool{}
			for _, p := range b.row.server.OpeningParts() {
				for _, id := range p.Secrets {
					b.unread[id] = slices.Contains(v.unread, p.Part)
				}
			}
			keys := len(b.secrets)
			b.madeWith = nil
			err := b.live(nil)
			clear(b.unread)
			require.Len(t, b.secrets, keys)
			if v.fails != "" {
				require.Equal(t, v.fails, durable.FromTemporal(err).Kind, "%v", err)
				b.runsOnce(0)
				return
			}
			require.NoError(t, err)
			b.runsOnce(1)
			require.Equal(t, slices.Contains(v.kept, compute.KeysOfDisks), b.expectedBy.Disks.IsKept())
			require.Equal(t, slices.Contains(v.kept, compute.KeyOfTPM), b.expectedBy.TPM.IsKept())
			require.Equal(t, []compute.Credential{b.expectedBy.Disks}, b.madeWith)
		})
	}
}

// EE-29: whatever fails or is cancelled at whichever call, the guest runs once: where it was, or, once
// it has gone over, on the new host.
func TestALiveMigrationThatFailsRunsOnce(t *testing.T) {
	t.Parallel()
	for name, setup := range map[string]func(*testing.T) *bench{"encrypted": spawned, "with ports": plugged, "UEFI": onUEFI} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			liveMigrationsThatFail(t, setup)
		})
	}
}

func liveMigrationsThatFail(t *testing.T, setup func(*testing.T) *bench) {
	t.Helper()
	first := setup(t)
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
				b := setup(t)
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

// A server whose new host dies before it says whether the guest has come waits for that host, until an
// operator says that it is fenced: then its guest goes on where it was, or, where it had gone over already,
// is off, with the disks that it left. With the old host dead, too, it is in ERROR, and is evacuated. When a
// dead host is back it runs nothing of the server, and loses what it has.
func TestAServerWhoseNewHostDiesInALiveMigration(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lost, bothDie bool
		vm            compute.VMState
		power         compute.PowerState
	}{
		"on its way":           {lost: true, vm: compute.VMActive, power: compute.PowerRunning},
		"when it had gone":     {vm: compute.VMStopped, power: compute.PowerShutdown},
		"both, on its way":     {lost: true, bothDie: true, vm: compute.VMError, power: compute.PowerPaused},
		"both, when it's gone": {bothDie: true, vm: compute.VMError, power: compute.PowerPaused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := spawned(t)
			b.hosts = append(b.hosts, compute.HostID{UUID: uuid.New()})
			from, to := b.hosts[0], b.hosts[1]
			fence := func(h compute.HostID) {
				b.down[h], b.forced[h], b.fencedOff[h] = true, true, true
			}
			guest := func(h compute.HostID) string { return h.String() + " " + b.row.server.InstanceName() }
			b.lost = c.lost
			asked, askedOld := 0, 0
			b.fault = func(is call) fault {
				away := fault{before: func() error { return compute.Errorf(compute.Unavailable, "it has no power") }}
				switch {
				case is.attempt > 1 && (is.name == domain.Arrived.Name || is.name == domain.Departed.Name && c.bothDie):
					return away
				case is.name == domain.Arrived.Name:
					if asked++; asked == 3 {
						b.down[to], b.forced[to] = true, true // and it has reported itself a moment ago
					}
					if asked == 5 {
						fence(to)
					}
					return away
				case is.name == domain.Departed.Name && c.bothDie:
					if askedOld++; asked >= 5 && askedOld >= 3 {
						fence(from)
					}
					return away
				}
				return fault{}
			}
			require.Error(t, b.live(nil))
			require.Equal(t, 5, asked)
			is := b.row.server
			require.Equal(t, []any{from, c.vm, c.power}, []any{*is.Host, is.VMState, is.PowerState})
			require.True(t, b.notThere[to])
			for _, thing := range b.listed() {
				if thing.Place == to.String() {
					require.Equal(t, compute.ThingWaiting, thing.State, "%v", thing)
				}
			}
			b.fault = nil

			// What had no power runs nothing.
			for h := range b.down {
				if power := b.domains[guest(h)]; power == compute.PowerRunning || power == compute.PowerPaused {
					b.domains[guest(h)] = compute.PowerShutdown
				}
			}
			at := 0
			switch {
			case c.bothDie:
				at = 2
				require.NoError(t, b.evacuateIt(compute.EvacuateArguments{}))
			case !c.lost:
				require.NoError(t, b.run(compute.OpStart, b.accept(compute.OpStart, compute.TaskPoweringOn, nil), nil))
			}
			clear(b.down)
			clear(b.forced)
			b.runsOnce(at)
			for _, thing := range b.things() {
				require.NotEqual(t, to.String(), thing.Place, "%v", thing)
			}
		})
	}
}
