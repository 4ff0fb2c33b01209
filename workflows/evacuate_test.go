package workflows_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/activities/disk"
	"strongroom/activities/domain"
	"strongroom/compute"
	"strongroom/durable"
)

// fenced is a bench whose server's host is down, and fenced.
func fenced(setup func(*testing.T) *bench) func(*testing.T) *bench {
	return func(t *testing.T) *bench {
		b := setup(t)
		b.fencedOff[*b.row.server.Host] = true
		return b
	}
}

// evacuated is a bench with a server that was evacuated.
func evacuated(setup func(*testing.T) *bench) func(*testing.T) *bench {
	return func(t *testing.T) *bench {
		b := fenced(setup)(t)
		require.NoError(t, b.evacuateIt(compute.EvacuateArguments{}))
		b.reapAll()
		b.forget()
		return b
	}
}

func (b *bench) evacuateIt(in compute.EvacuateArguments) error {
	b.t.Helper()
	return b.run(compute.OpEvacuate, b.accept(compute.OpEvacuate, compute.TaskRebuilding, in), nil)
}

// TPM-30, EE-29: a server of a host that is down runs on another one, with new disks under the
// keys that they had and a new vTPM under the key that it had. No key is made or deleted. The user
// is told of the TPM. What is on the old host waits for it, and nothing is asked of it.
func TestEvacuate(t *testing.T) {
	t.Parallel()
	for name, stays := range map[string]bool{"runs": false, "off": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := fenced(spawned)(t)
			from, to, was, keys := b.hosts[0], b.hosts[1], b.row.server, maps.Clone(b.secrets)
			b.down[from], b.forced[from] = true, true
			state := b.states[from.String()+" "+was.ID.String()]
			require.NotEmpty(t, state)
			in := b.accept(compute.OpEvacuate, compute.TaskRebuilding, compute.EvacuateArguments{Stopped: stays})
			require.NoError(t, b.run(compute.OpEvacuate, in, nil))
			is := b.row.server
			require.Equal(t, to, *is.Host)
			require.Equal(t, keys, b.secrets)
			require.Equal(t, was.Secrets(), is.Secrets())
			require.Equal(t, map[compute.OperationID]compute.HostID{in.Operation: to}, b.claims)
			require.Contains(t, b.operations[in.Operation].Message, "vTPM of server "+was.ID.String()+" was lost")
			require.Contains(t, b.events[eventKey(in, "tpm_state_lost", nil)], "was lost with its host")
			for _, c := range b.calls {
				require.False(t, !c.local && strings.Contains(c.detail, from.String()), "%s asks the host that is down", c)
			}
			for _, thing := range b.listed() {
				require.Equal(t, thing.Place == from.String(), thing.State == compute.ThingWaiting, "%v", thing)
			}
			vm, power := compute.VMActive, compute.PowerRunning
			if stays {
				vm, power = compute.VMStopped, compute.PowerShutdown
			}
			require.Equal(t, []any{vm, power, stays, stays}, []any{is.VMState, is.PowerState, is.Unbooted(), is.HasNewTPM()})
			if stays {
				require.Zero(t, b.count(domain.Start.Name))
				require.NoError(t, b.run(compute.OpStart, b.accept(compute.OpStart, compute.TaskPoweringOn, nil), nil))
				require.False(t, b.row.server.HasNewTPM() || b.row.server.Unbooted())
			}
			require.Equal(t, compute.PowerRunning, b.domains[to.String()+" "+was.InstanceName()])
			now := b.states[to.String()+" "+was.ID.String()]
			require.NotEmpty(t, now)
			require.NotEqual(t, state, now, "the state is lost")

			b.down[from], b.forced[from] = false, false
			b.reapAll()
			require.Empty(t, b.audit())
			b.isWhatItIs()
			require.Empty(t, b.broken)
		})
	}
}

// An evacuate that cannot be changes nothing: the host is not fenced, no other one can take the
// server, or the one that was asked for; whoever asks may not read the keys (EE-30).
func TestEvacuateIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		arrange func(*bench) compute.EvacuateArguments
		kind    compute.Kind
	}{
		"in use": {func(b *bench) compute.EvacuateArguments {
			clear(b.fencedOff)
			return compute.EvacuateArguments{}
		}, compute.Conflict},
		"no room": {func(b *bench) compute.EvacuateArguments {
			b.hosts = b.hosts[:1]
			return compute.EvacuateArguments{}
		}, compute.NoHost},
		"no such host": {func(*bench) compute.EvacuateArguments { return compute.EvacuateArguments{Host: &compute.HostID{}} }, compute.NoHost},
		"something of it is there": {func(b *bench) compute.EvacuateArguments {
			b.also(compute.ThingDiskFile, b.hosts[1].String(), b.row.server.ID.String()+"/disk.old")
			b.files[b.hosts[1].String()+" "+b.row.server.ID.String()+"/disk.old"] = true
			return compute.EvacuateArguments{}
		}, compute.NoHost},
		"keys": {func(b *bench) compute.EvacuateArguments {
			b.fault = at(call{name: "key.Check", nth: 1}, fault{before: func() error { return compute.Errorf(compute.Forbidden, "not yours") }})
			return compute.EvacuateArguments{}
		}, compute.Forbidden},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := fenced(spawned)(t)
			in := c.arrange(b)
			was, has := b.row.server, b.listed()
			require.Equal(t, c.kind, durable.FromTemporal(b.evacuateIt(in)).Kind)
			require.Equal(t, was, b.row.server)
			require.Equal(t, has, b.listed())
			require.Zero(t, b.count(disk.Create.Name))
			require.Len(t, b.claims, 1)
		})
	}
}

// The fault of a server that was in ERROR is the newest failure, as in Nova, and not that of the operation before.
func TestFaultOfAServerThatWasInError(t *testing.T) {
	t.Parallel()
	b := fenced(spawned)(t)
	b.row.server.VMState, b.row.fault = compute.VMError, &compute.Fault{Code: 500, Message: "its host was lost"}
	b.hosts = b.hosts[:1]
	require.Error(t, b.evacuateIt(compute.EvacuateArguments{}))
	require.Equal(t, compute.VMError, b.row.server.VMState)
	require.NotNil(t, b.row.fault)
	require.Contains(t, b.row.fault.Message, "No valid host was found")
}

// A server that was evacuated and not started since has no state of its vTPM: it is migrated
// without, and resized; only a shelve would have nothing to keep.
func TestMovesOfAServerWithoutStateOfItsTPM(t *testing.T) {
	t.Parallel()
	for name, move := range map[string]func(*bench) error{
		"migrate": func(b *bench) error { return b.migrateIt(compute.MigrateArguments{}) },
		"resize":  func(b *bench) error { return b.resizeIt(here(sameTPM)) },
	} {
		for _, decide := range []func(*bench) error{(*bench).confirmIt, (*bench).revertIt} {
			b := withNewTPM(t)
			require.NoError(t, move(b), name)
			require.NoError(t, decide(b), name)
			require.NoError(t, b.run(compute.OpStart, b.accept(compute.OpStart, compute.TaskPoweringOn, nil), nil), name)
			require.Len(t, b.tpms, 1, name)
			require.Empty(t, b.audit(), name)
			require.Empty(t, b.broken, name)
		}
	}
	b := withNewTPM(t)
	err := b.run(compute.OpShelve, b.accept(compute.OpShelve, compute.TaskShelving, compute.ShelveArguments{}), nil)
	require.ErrorContains(t, err, "Start it first")
}
