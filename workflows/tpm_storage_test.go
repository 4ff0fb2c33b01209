package workflows_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/domain"
	"strongroom/activities/record"
	"strongroom/activities/tpm"
	"strongroom/compute"
	"strongroom/durable"
)

// sharing is a bench whose hosts have the states of TPMs on one storage.
func sharing(setup func(*testing.T) *bench) func(*testing.T) *bench {
	return func(t *testing.T) *bench {
		b := setup(t)
		for key := range maps.Clone(b.tpms) {
			_, name, _ := strings.Cut(key, " ")
			shared := sharedStorage + " " + name
			b.tpms[shared], b.states[shared], b.marks[shared], b.locks[shared] = true, b.states[key], b.marks[key], b.locks[key]
			delete(b.tpms, key)
			delete(b.states, key)
			delete(b.marks, key)
			delete(b.locks, key)
		}
		b.sharedTPMs = true
		return b
	}
}

// TPM-39: where hosts share the storage, an evacuate keeps the state of the vTPM; the host that was
// left has none of it to remove.
func TestEvacuateKeepsASharedTPM(t *testing.T) {
	t.Parallel()
	for name, stays := range map[string]bool{"runs": false, "off": true} {
		b := sharing(fenced(spawned))(t)
		from := b.hosts[0]
		b.down[from], b.forced[from] = true, true
		state := b.state()
		b.row.server.TPM.Endorsed = "req-made"
		in := b.accept(compute.OpEvacuate, compute.TaskRebuilding, compute.EvacuateArguments{Stopped: stays})
		require.NoError(t, b.run(compute.OpEvacuate, in, nil), name)
		require.Empty(t, b.operations[in.Operation].Message, name)
		require.False(t, b.row.server.HasNewTPM(), name)
		require.Equal(t, compute.OperationID("req-made"), b.row.server.TPM.Endorsed, "%s: it has the certificates that it had", name)
		require.Equal(t, state, b.state(), name)
		for _, thing := range b.listed() {
			require.False(t, thing.Kind == compute.ThingTPMState && thing.Place == from.String(), "%s: %v", name, thing)
		}
		clear(b.down)
		clear(b.forced)
		clear(b.fencedOff)
		b.reapAll()
		require.Equal(t, state, b.state(), name)
		require.Len(t, b.tpms, 1, "%s: no copy is left", name)
		require.Empty(t, b.audit(), name)
		if stays {
			require.NoError(t, b.run(compute.OpStart, b.accept(compute.OpStart, compute.TaskPoweringOn, nil), nil))
			require.Equal(t, state, b.state())
		}
		require.Empty(t, b.broken, name)
	}
}

// withNewTPM is a bench with a server that is off and whose vTPM has no state yet.
func withNewTPM(t *testing.T) *bench {
	b := evacuated(stopped)(t)
	require.True(t, b.row.server.HasNewTPM())
	clear(b.fencedOff)
	return b
}

// TPM-39: an evacuate asks for a host that has the state of the vTPM, if it has one. A migration copies it.
func TestEvacuateSeeksTheHostsThatHaveTheTPM(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		setup func(*testing.T) *bench
		seeks bool
	}{"a vTPM": {spawned, true}, "one without a state": {withNewTPM, false}, "none": {withoutTPM, false}} {
		b := fenced(c.setup)(t)
		from := *b.row.server.Host
		b.down[from], b.forced[from] = true, true
		require.NoError(t, b.evacuateIt(compute.EvacuateArguments{}), name)
		require.Equal(t, c.seeks, b.tpmOf != nil && *b.tpmOf == from, name)
	}
	b := spawned(t)
	require.NoError(t, b.migrateIt(compute.MigrateArguments{}))
	require.Nil(t, b.tpmOf)
}

// TPM-39: a host that has the state of the vTPM takes no work in time: that is said where the next host is asked for, and an evacuate
// that is refused for it leaves the server as it was.
func TestEvacuateGivesUpNoTPMForASilentHost(t *testing.T) {
	t.Parallel()
	b := sharing(fenced(spawned))(t)
	from, silent, was, state := b.hosts[0], b.hosts[1], b.row.server, b.state()
	b.down[from], b.forced[from], b.waitsPeers = true, true, true
	b.hosts = append(b.hosts, compute.HostID{UUID: uuid.New()})
	in := b.accept(compute.OpEvacuate, compute.TaskRebuilding, compute.EvacuateArguments{})
	err := b.run(compute.OpEvacuate, in, silenced(&silence{hosts: []compute.HostID{silent}, quick: true}))
	require.Equal(t, compute.Conflict, durable.FromTemporal(err).Kind, "%v", err)
	require.ErrorContains(t, err, "start the worker of host-"+silent.String()[:4])
	require.Equal(t, []any{was.VMState, *was.Host}, []any{b.row.server.VMState, *b.row.server.Host})
	require.Equal(t, state, b.state())
	require.Len(t, b.claims, 1)
	require.Empty(t, b.broken)
}

// Where the new host has the state itself, an evacuate restores no backup of it, which is older; that
// stays for another time, with whatever the state is. One that was deleted costs nothing.
func TestEvacuateOfASharedTPMRestoresNoBackup(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*bench){
		"with a backup":        func(*bench) {},
		"whose backup is gone": func(b *bench) { clear(b.stored) },
	} {
		for _, stays := range []bool{false, true} {
			b := sharing(fenced(goneOn(tpmBackedUp(spawned))))(t)
			spoil(b)
			from, state, backup := b.hosts[0], b.state(), *b.row.server.TPMBackup
			b.down[from], b.forced[from] = true, true
			in := b.accept(compute.OpEvacuate, compute.TaskRebuilding, compute.EvacuateArguments{Stopped: stays})
			require.NoError(t, b.run(compute.OpEvacuate, in, nil), name)
			require.Empty(t, b.operations[in.Operation].Message, name)
			require.Zero(t, b.count(tpm.Restore.Name), name)
			require.Equal(t, state, b.state(), name)
			require.Equal(t, &backup, b.row.server.TPMBackup, name)
			b.down[from], b.forced[from] = false, false
			clear(b.fencedOff)
			b.reapAll()
			require.Equal(t, state, b.state(), name)
			require.NoError(t, b.backUpTPM(), name)
			require.Equal(t, state, b.stored[b.row.server.TPMBackup.Object], name)
			require.Len(t, b.backups(), 1, name)
			require.Empty(t, b.audit(), name)
			require.Empty(t, b.broken, name)
		}
	}
}

// The host of a resize that failed died before it put the state of the vTPM back: the host that the
// server is evacuated to does, and does not take what the resize made for the server's state.
func TestEvacuatePutsASharedTPMBack(t *testing.T) {
	t.Parallel()
	for name, stays := range map[string]bool{"runs": false, "off": true} {
		b := sharing(spawned)(t)
		from, state := b.hosts[0], b.state()
		b.fault = at(call{name: tpm.PutBack.Name, nth: 1}, fault{after: func() error {
			b.down[from], b.forced[from], b.fencedOff[from] = true, true, true
			return errBroken
		}})
		require.Error(t, b.resizeIt(here(otherTPM)), name)
		b.fault = nil
		require.Equal(t, from, *b.row.server.Host, name)
		require.NotEqual(t, state, b.state(), name)
		require.NoError(t, b.evacuateIt(compute.EvacuateArguments{Stopped: stays}), name)
		require.Equal(t, state, b.state(), name)
		clear(b.down)
		clear(b.forced)
		clear(b.fencedOff)
		b.reapAll()
		require.Equal(t, state, b.state(), name)
		require.Len(t, b.tpms, 1, name)
		require.Empty(t, b.audit(), name)
		require.Empty(t, b.broken, name)
	}
}

// Whatever fails in a move between hosts that share the storage, the server has its state as it was
// before, or as its new machine made it; it is never removed, and never used by two.
func TestAMoveOfASharedTPMThatFails(t *testing.T) {
	t.Parallel()
	type move struct {
		setup func(*testing.T) *bench
		do    func(*bench) error
	}
	fencedOff := func(t *testing.T) *bench {
		b := sharing(fenced(spawned))(t)
		b.down[b.hosts[0]], b.forced[b.hosts[0]] = true, true
		return b
	}
	for name, v := range map[string]move{
		"resize":   {sharing(spawned), func(b *bench) error { return b.resizeIt(there(otherTPM)) }},
		"back":     {resized(sharing(spawned), there(otherTPM)), (*bench).revertIt},
		"confirm":  {resized(sharing(spawned), there(otherTPM)), (*bench).confirmIt},
		"evacuate": {fencedOff, func(b *bench) error { return b.evacuateIt(compute.EvacuateArguments{}) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := v.setup(t)
			require.NoError(t, v.do(first))
			for _, c := range first.names() {
				for what, f := range map[string]fault{"before": {before: fail}, "after": {after: fail}} {
					b := v.setup(t)
					was, state := *b.row.server.Host, b.state()
					b.fault = func(now call) fault {
						if now.name == c.name && now.nth == c.nth && now.attempt == 1 {
							return f
						}
						return fault{}
					}
					_ = v.do(b)
					b.fault = nil
					clear(b.down)
					clear(b.forced)
					clear(b.fencedOff)
					b.reapAll()
					at := name + ", " + what + " " + c.name
					require.Empty(t, b.broken, at)
					require.Empty(t, b.audit(), at)
					require.NotEmpty(t, b.state(), at)
					if *b.row.server.Host == was && name != "confirm" {
						require.Equal(t, state, b.state(), at)
					}
				}
			}
		})
	}
}

// Hosts that say that they share, and do not see the same, move no server with a vTPM: nothing of it
// was stopped or copied. A live migration is refused to hosts that share.
func TestMovesWhereTheStorageIsNotWhatHostsSay(t *testing.T) {
	t.Parallel()
	b := spawned(t)
	b.sayShared = true
	require.ErrorContains(t, b.migrateIt(compute.MigrateArguments{}), "is the file system mounted on both?")
	require.Zero(t, b.count(domain.Stop.Name))
	require.Zero(t, b.count(tpm.Receive.Name))
	require.Equal(t, compute.VMActive, b.row.server.VMState)
	b.fencedOff[b.hosts[0]] = true
	require.ErrorContains(t, b.evacuateIt(compute.EvacuateArguments{}), "is not on the storage that it was on")
	require.Empty(t, b.audit())
	require.Empty(t, b.broken)

	b = sharing(spawned)(t)
	require.ErrorContains(t, b.live(nil), compute.SharedTPMStorage)
	require.Zero(t, b.count(domain.Migrate.Name))
	require.Equal(t, b.hosts[0], *b.row.server.Host)
	require.Empty(t, b.audit())
}

// K20: an evacuate that would start the server by a state that is lost is refused before anything is begun. One of a server that stays off goes on, and
// the server is rebuilt on its new host.
func TestK20EvacuateOfALostTPMOnSharedStorage(t *testing.T) {
	t.Parallel()
	for _, state := range []string{"", damagedState} {
		lost := func() (b *bench, from compute.HostID, key, good string) {
			b = sharing(fenced(spawned))(t)
			from, key = b.hosts[0], b.tpmKey(b.hosts[0].String(), b.row.server.ID.String())
			good = b.states[key]
			b.down[from], b.forced[from] = true, true
			b.states[key] = state
			return b, from, key, good
		}
		isSound := func(b *bench) {
			t.Helper()
			clear(b.down)
			clear(b.forced)
			clear(b.fencedOff)
			b.reapAll()
			require.Empty(t, b.audit())
			require.Empty(t, b.broken)
		}
		b, from, key, good := lost()
		require.NotEmpty(t, good)
		require.ErrorContains(t, b.evacuateIt(compute.EvacuateArguments{}), "is gone or damaged. Put it back as it was")
		require.Equal(t, from, *b.row.server.Host)
		require.Zero(t, b.count(record.LeaveHost.Name))
		require.Zero(t, b.count(domain.Start.Name))
		require.Equal(t, state, b.states[key])
		b.states[key] = good
		require.NoError(t, b.evacuateIt(compute.EvacuateArguments{}))
		require.NotEqual(t, from, *b.row.server.Host)
		isSound(b)

		b, from, key, _ = lost()
		require.NoError(t, b.evacuateIt(compute.EvacuateArguments{Stopped: true}))
		require.NotEqual(t, from, *b.row.server.Host)
		require.Equal(t, state, b.states[key])
		isSound(b)
		_, err := b.rebuild(rebuildTo(crb))
		require.NoError(t, err)
		require.NotEqual(t, state, b.states[key])
		isSound(b)
	}
}

// K20: a guest whose vTPM has lost its state is not stopped for a move or a shelve: swtpm may have the only good one in its memory.
func TestK20NoGuestIsStoppedWhoseTPMStateIsLost(t *testing.T) {
	t.Parallel()
	for _, state := range []string{"", damagedState} {
		for name, do := range map[string]func(*bench) error{
			"migrate": func(b *bench) error { return b.migrateIt(compute.MigrateArguments{}) },
			"shelve": func(b *bench) error {
				return b.run(compute.OpShelve, b.accept(compute.OpShelve, compute.TaskShelving, compute.ShelveArguments{}), nil)
			},
		} {
			b := spawned(t)
			key := b.tpmKey(b.row.server.Host.String(), b.row.server.ID.String())
			good := b.states[key]
			b.states[key] = state
			has := b.listed()
			require.ErrorContains(t, do(b), "its TPM state is not on", name)
			require.Equal(t, compute.VMActive, b.row.server.VMState, name)
			require.Zero(t, b.count(domain.Stop.Name), name)
			require.Equal(t, has, b.listed(), name)
			b.states[key] = good
			require.NoError(t, do(b), name)
			require.Empty(t, b.broken, name)
		}
	}
}

// A revert failed, and hosts died before it put the state of the resized machine's vTPM back: a confirm waits for that, for
// the copy is all that there is of the state.
func TestConfirmWaitsForATPMThatIsToBePutBack(t *testing.T) {
	t.Parallel()
	for name, setup := range map[string]func(*testing.T) *bench{
		"on its host": resized(spawned, here(otherTPM)), "on shared storage": resized(sharing(spawned), there(otherTPM)),
	} {
		b := setup(t)
		key := b.tpmKey(b.row.server.Host.String(), b.row.server.ID.String())
		state := b.states[key]
		b.fault = at(call{name: tpm.PutBack.Name, nth: 1}, fault{after: func() error {
			for _, host := range b.hosts {
				b.down[host] = true
			}
			return errBroken
		}})
		require.Error(t, b.revertIt(), name)
		b.fault = nil
		require.NotEqual(t, state, b.states[key], name)
		require.NotNil(t, b.row.server.Former, name)
		require.ErrorContains(t, b.confirmIt(), "still to be put back", name)
		require.NotNil(t, b.row.server.Former, name)
		clear(b.down)
		b.reapAll()
		require.Equal(t, state, b.states[key], name)
		require.NoError(t, b.confirmIt(), name)
		b.reapAll()
		require.Equal(t, state, b.states[key], name)
		require.Len(t, b.tpms, 1, name)
		require.Empty(t, b.audit(), name)
		require.Empty(t, b.broken, name)
	}
}
