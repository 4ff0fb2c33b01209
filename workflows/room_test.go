package workflows_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/disk"
	"strongroom/activities/domain"
	"strongroom/compute"
	"strongroom/durable"
)

// requireUntouched requires that a server was refused something before anything of it was stopped,
// made or sent.
func (b *bench) requireUntouched(was compute.Server) {
	b.t.Helper()
	for _, name := range []string{
		domain.Stop.Name, domain.Migrate.Name, disk.CacheImage.Name, disk.Create.Name, disk.Receive.Name, disk.Resize.Name, disk.Export.Name,
	} {
		require.Zero(b.t, b.count(name), name)
	}
	now := b.row.server
	require.Equal(b.t, was.VMState, now.VMState)
	require.Equal(b.t, was.PowerState, now.PowerState)
	require.Equal(b.t, was.Host, now.Host)
	require.Equal(b.t, was.Disks, now.Disks)
	require.Equal(b.t, was.Flavor, now.Flavor)
	require.Equal(b.t, compute.TaskNone, now.TaskState)
	require.Nil(b.t, b.row.fault)
	require.Len(b.t, b.claims, 1)
	require.Empty(b.t, b.audit())
	require.Empty(b.t, b.broken)
	b.openWithTheirSecrets()
}

// What needs room is refused where there is none, or where a disk cannot be copied, while the guest
// runs on.
func TestMovesAndShelvesAreRefusedWhileTheGuestRuns(t *testing.T) {
	t.Parallel()
	for name, does := range map[string]func(*bench) error{
		"migrate":      func(b *bench) error { return b.migrateIt(compute.MigrateArguments{Host: &b.hosts[1]}) },
		"resize there": func(b *bench) error { return b.resizeIt(there(sameTPM)) },
		"resize here":  func(b *bench) error { return b.resizeIt(here(sameTPM)) },
		"live migrate": func(b *bench) error { return b.live(nil) },
		"shelve":       func(b *bench) error { return b.shelveIt(0) },
	} {
		t.Run(name+", no room", func(t *testing.T) {
			t.Parallel()
			b := spawned(t)
			was := b.row.server
			for _, h := range b.hosts {
				b.room[h] = int64(len(was.Disks))*diskBytes - 1
			}
			err := does(b)
			require.ErrorContains(t, err, "no room for")
			require.Equal(t, compute.NoHost, durable.FromTemporal(err).Kind)
			b.requireUntouched(was)

			for _, h := range b.hosts {
				b.room[h]++
			}
			require.NoError(t, does(b))
		})
		t.Run(name+", a disk that cannot be copied", func(t *testing.T) {
			t.Parallel()
			b := spawned(t)
			was := b.row.server
			b.fault = func(c call) fault {
				if c.name == disk.CheckMove.Name || c.name == disk.CheckExport.Name {
					return fault{before: func() error { return compute.Errorf(compute.Conflict, "it is in a pool") }}
				}
				return fault{}
			}
			err := does(b)
			require.ErrorContains(t, err, "it is in a pool")
			require.Zero(t, b.count(disk.CheckRoom.Name))
			b.requireUntouched(was)
		})
	}
}

// UEFI variables that are missing, or that the new host's firmware does not read, are noticed while the guest runs on;
// another host may read them.
func TestMovesAreRefusedWithoutTheirUEFIVariables(t *testing.T) {
	t.Parallel()
	for name, does := range map[string]func(*bench) error{
		"migrate":      func(b *bench) error { return b.migrateIt(compute.MigrateArguments{}) },
		"resize there": func(b *bench) error { return b.resizeIt(there(nil)) },
		"resize here":  func(b *bench) error { return b.resizeIt(here(nil)) },
		"live migrate": func(b *bench) error { return b.live(nil) },
		"shelve":       func(b *bench) error { return b.shelveIt(0) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := onUEFI(t)
			was := b.row.server
			file := was.Host.String() + " " + was.ID.String() + "/" + was.NVRAM()
			b.files[file] = false
			err := does(b)
			b.files[file] = true
			require.Equal(t, compute.Corrupt, durable.FromTemporal(err).Kind)
			require.ErrorContains(t, err, "its UEFI variables are missing")
			require.Zero(t, b.count(disk.CheckRoom.Name))
			b.requireUntouched(was)
			if name == "shelve" {
				return
			}

			b.other = map[compute.HostID]bool{}
			for _, h := range b.hosts {
				b.other[h] = true
			}
			err = does(b)
			require.ErrorContains(t, err, "its UEFI variables have another size")
			b.requireUntouched(was)
			require.Equal(t, "new booted", b.variables())

			third := compute.HostID{UUID: uuid.New()}
			b.hosts = append(b.hosts, third)
			if name == "resize here" {
				delete(b.other, *was.Host)
			}
			require.NoError(t, does(b))
			if name != "resize here" {
				require.Equal(t, third, *b.row.server.Host)
			}
		})
	}
}

// A host that nobody named and that has no room is left for the next one. Where none has, the
// refusal is what the last one said.
func TestMovesGoToAHostWithRoom(t *testing.T) {
	t.Parallel()
	for name, does := range map[string]func(*bench) error{
		"migrate":      func(b *bench) error { return b.migrateIt(compute.MigrateArguments{}) },
		"resize":       func(b *bench) error { return b.resizeIt(there(sameTPM)) },
		"live migrate": func(b *bench) error { return b.live(nil) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := spawned(t)
			third := compute.HostID{UUID: uuid.New()}
			b.hosts = append(b.hosts, third)
			b.room[b.hosts[1]] = 0
			require.NoError(t, does(b))
			require.Equal(t, third, *b.row.server.Host)
			require.Equal(t, 2, b.count(disk.CheckRoom.Name))
			for _, thing := range b.things() {
				require.NotEqual(t, b.hosts[1].String(), thing.Place, thing.Name)
			}
			require.Empty(t, b.audit())
			require.Empty(t, b.broken)
		})
	}
	t.Run("from its own host", func(t *testing.T) {
		t.Parallel()
		b := spawned(t)
		was := b.row.server
		b.room[*was.Host] = 0
		require.NoError(t, b.resizeIt(here(sameTPM)))
		require.Equal(t, b.hosts[1], *b.row.server.Host)
		require.Equal(t, was.Disks[0].Name(), b.row.server.Disks[0].Name(), "elsewhere its files have the names that they had")
		b.isWhatItIs()
	})
}
