package workflows_test

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/activities/disk"
	"strongroom/activities/domain"
	"strongroom/compute"
	"strongroom/durable"
)

// onSharedDisks is a bench whose hosts have servers' folders on one storage.
func onSharedDisks(setup func(*testing.T) *bench) func(*testing.T) *bench {
	return func(t *testing.T) *bench {
		b := setup(t)
		b.shareDisks()
		return b
	}
}

// filesOf are the files of a host.
func (b *bench) filesAt(host compute.HostID) map[string]bool {
	out := map[string]bool{}
	for key := range b.files {
		if place, name := key[:36], key[37:]; place == host.String() {
			out[name] = true
		}
	}
	return out
}

// Where hosts share the storage of disks, an evacuate keeps them, with the keys that they have: none is made, none is removed, and the ledger
// has them on the new host. The host that returns, or that is forgotten, removes none of them.
func TestEvacuateKeepsSharedDisks(t *testing.T) {
	t.Parallel()
	for name, stays := range map[string]bool{"runs": false, "off": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := onSharedDisks(fenced(spawned))(t)
			from, to, was, files, keys := b.hosts[0], b.hosts[1], b.row.server, b.filesAt(b.hosts[0]), maps.Clone(b.secrets)
			b.down[from], b.forced[from] = true, true
			created := b.count(disk.Create.Name)
			require.NoError(t, b.run(compute.OpEvacuate, b.accept(compute.OpEvacuate, compute.TaskRebuilding, compute.EvacuateArguments{Stopped: stays}), nil))
			is := b.row.server
			require.Equal(t, from, *b.disksOf)
			require.Equal(t, to, *is.Host)
			require.Equal(t, was.Disks, is.Disks)
			require.Equal(t, keys, b.secrets)
			require.Equal(t, created, b.count(disk.Create.Name))
			require.Equal(t, to.String(), b.backing)
			for _, thing := range b.listed() {
				require.False(t, thing.Kind == compute.ThingDiskFile && (thing.Place != to.String() || thing.State != compute.ThingPresent), "%v", thing)
			}
			clear(b.down)
			clear(b.forced)
			clear(b.fencedOff)
			b.reapAll()
			require.Equal(t, files, b.filesAt(to), "the host that returns removes none")
			require.Empty(t, b.audit())
			if stays {
				require.NoError(t, b.run(compute.OpStart, b.accept(compute.OpStart, compute.TaskPoweringOn, nil), nil))
			}
			require.Equal(t, compute.PowerRunning, b.domains[to.String()+" "+was.InstanceName()])
			b.isWhatItIs()
			require.Empty(t, b.broken)
			require.NoError(t, b.run(compute.OpDelete, b.accept(compute.OpDelete, compute.TaskDeleting, nil), nil))
			b.reapAll()
			require.Empty(t, b.files)
			require.Empty(t, b.audit())
			require.Empty(t, b.broken)
		})
	}
}

// An evacuate that fails anywhere leaves the disks, and the ledger has them where they were.
func TestEvacuateThatFailsLeavesSharedDisks(t *testing.T) {
	t.Parallel()
	for _, at1 := range []string{disk.Find.Name, disk.CacheImage.Name, disk.TakeOver.Name, domain.Start.Name} {
		for _, late := range []bool{false, true} {
			b := onSharedDisks(fenced(spawned))(t)
			from := b.hosts[0]
			b.down[from], b.forced[from] = true, true
			files, has, was := b.filesAt(from), b.listed(), b.row.server
			b.forget()
			fail := func() error { return compute.Errorf(compute.Invalid, "no") }
			f := fault{before: fail}
			if late {
				f = fault{after: fail}
			}
			b.fault = at(call{name: at1, nth: 1}, f)
			require.Error(t, b.evacuateIt(compute.EvacuateArguments{}), at1)
			b.fault = nil
			require.Equal(t, from, *b.row.server.Host, at1)
			require.Equal(t, was.Disks, b.row.server.Disks, at1)
			require.Equal(t, files, b.filesAt(from), at1)
			require.Equal(t, from.String(), b.backing, at1)
			require.ElementsMatch(t, has, b.listed(), at1)
			require.Empty(t, b.broken, at1)
		}
	}
}

// Hosts that share a folder, and of which one does not say so: nothing moves, and nothing is evacuated.
func TestNothingMovesToAHostThatHasItsFiles(t *testing.T) {
	t.Parallel()
	for name, move := range map[string]func(*bench) error{
		"evacuate": func(b *bench) error {
			b.fencedOff[b.hosts[0]], b.down[b.hosts[0]], b.forced[b.hosts[0]] = true, true, true
			return b.evacuateIt(compute.EvacuateArguments{})
		},
		"migrate": func(b *bench) error { return b.migrateIt(compute.MigrateArguments{}) },
	} {
		b := onSharedDisks(spawned)(t)
		b.saysSharedDisks = false
		files, was := b.filesAt(b.hosts[0]), b.row.server
		err := move(b)
		require.Equal(t, compute.Conflict, durable.FromTemporal(err).Kind, "%s: %v", name, err)
		require.Equal(t, files, b.filesAt(b.hosts[0]), name)
		require.Equal(t, was.Disks, b.row.server.Disks, name)
		require.Equal(t, *was.Host, *b.row.server.Host, name)
		require.Empty(t, b.broken, name)
	}
}
