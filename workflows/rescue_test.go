package workflows_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/disk"
	"strongroom/activities/domain"
	"strongroom/activities/key"
	"strongroom/compute"
	"strongroom/durable"
)

// An image to be rescued with, and one that is encrypted.
var (
	rescueKey   = compute.SecretID{UUID: uuid.MustParse("b2a2a6a0-4f5e-4d34-8f0c-5e9a54f0c001")}
	rescueImage = compute.Image{ID: imageID, Name: "rescue", Status: "active", DiskFormat: "qcow2"}
	sealedImage = compute.Image{
		ID: imageID, Name: "sealed", Status: "active", DiskFormat: "qcow2", SHA256: strings.Repeat("ab", 32), Properties: map[string]string{"os_encrypt_key_id": rescueKey.String()},
	}
)

// withRescueKey is a bench where the encrypted image's key is somebody's.
func withRescueKey(setup func(*testing.T) *bench) func(*testing.T) *bench {
	return func(t *testing.T) *bench {
		b := setup(t)
		b.secrets["somebody's"], b.owned["somebody's"] = rescueKey, true
		return b
	}
}

// rescuedWith is a bench with a server that is rescued.
func rescuedWith(img compute.Image) func(*testing.T) *bench {
	return rescuedBy(withRescueKey(spawned), img)
}

func rescuedFrom(setup func(*testing.T) *bench) func(*testing.T) *bench {
	return rescuedBy(setup, rescueImage)
}

func rescuedBy(setup func(*testing.T) *bench, img compute.Image) func(*testing.T) *bench {
	return func(t *testing.T) *bench {
		b := setup(t)
		require.NoError(t, b.rescue(img))
		b.forget()
		return b
	}
}

func (b *bench) rescue(img compute.Image) error {
	b.t.Helper()
	return b.run(compute.OpRescue, b.accept(compute.OpRescue, compute.TaskRescuing, compute.RescueArguments{Image: img}), nil)
}

func (b *bench) unrescue() error {
	b.t.Helper()
	return b.run(compute.OpUnrescue, b.accept(compute.OpUnrescue, compute.TaskUnrescuing, nil), nil)
}

// bootedFrom gives what the server's machine last booted from.
func (b *bench) bootedFrom() compute.DiskRole {
	roles := slices.Collect(maps.Values(b.booted))
	require.Len(b.t, roles, 1)
	return roles[0]
}

// switches reports whether an operation boots the server from another disk.
func switches(kind compute.OperationKind) bool {
	return slices.Contains([]compute.OperationKind{compute.OpRescue, compute.OpUnrescue, compute.OpPause, compute.OpUnpause}, kind)
}

// bootsAs checks that the server's machine is what its state says: on its rescue
// disk or its own, on or off, and that there is a rescue disk when it is rescued, and only then.
func (b *bench) bootsAs(vm compute.VMState, power compute.PowerState) {
	t := b.t
	t.Helper()
	_, recorded := b.row.server.RescueDisk()
	require.Equal(t, vm == compute.VMRescued, recorded)
	require.Equal(t, vm == compute.VMRescued, b.hasRescueFile())
	require.Equal(t, []compute.PowerState{power}, b.power())
	if power == compute.PowerRunning {
		require.Equal(t, vm == compute.VMRescued, b.bootedFrom() == compute.RescueDisk)
	}
}

// hasRescueFile reports whether there is a rescue disk on the host.
func (b *bench) hasRescueFile() bool {
	for key := range b.files {
		if strings.HasPrefix(key, b.row.server.Host.String()+" "+b.row.server.ID.String()+"/"+rescueFile) {
			return true
		}
	}
	return false
}

// TPM-14, EE-38: who may not read the keys of a server does not even stop it with an operation
// that would boot it again, and gets no copy of the disk of one that runs.
func TestEE38WhoMayNotReadTheKeysChangesNothing(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"rescue", "unrescue", "reboot soft", "reboot hard", "snapshot of a running server", "snapshot of a stopped server",
		"backup", "rebuild", "rebuild of a stopped", "rebuild to plain of a stopped",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := subjects[name]
			b := s.setup(t)
			was := b.row.server
			b.unreadable = true
			b.forget()
			in := b.accept(s.kind, s.task, s.arguments)
			err := b.run(s.kind, in, nil)
			require.Error(t, err)
			require.Equal(t, compute.Forbidden, durable.FromTemporal(err).Kind)
			for _, activity := range []string{domain.Stop.Name, domain.Start.Name, domain.Export.Name, disk.Export.Name, disk.Create.Name, key.Create.Name, key.Copy.Name} {
				require.Zero(t, b.count(activity), activity)
			}
			b.reapAll()
			require.Equal(t, was.VMState, b.row.server.VMState)
			require.Equal(t, was.PowerState, b.row.server.PowerState)
			require.Equal(t, was.Disks, b.row.server.Disks)
			require.Equal(t, compute.OperationFailed, b.operations[in.Operation].State)
			require.Empty(t, b.audit())
		})
	}
}

// EE-45: the key of a disk that a rebuild replaces may be gone: nothing of it is needed.
func TestEE38RebuildOfAStoppedServerWhoseDiskHasNoKey(t *testing.T) {
	t.Parallel()
	s := subjects["rebuild to plain of a stopped"]
	b := s.setup(t)
	b.fault = func(c call) fault {
		if c.name == key.Check.Name {
			return fault{before: func() error { return compute.Errorf(compute.NotFound, "no such secret") }}
		}
		return fault{}
	}
	in := b.accept(s.kind, s.task, s.arguments)
	require.NoError(t, b.run(s.kind, in, nil))
	b.whole(in, s.kind)
}

// EE-26: the rescue disk is encrypted if its image is, whatever the server is, with
// the image's key; none is made and none is deleted. The server's own disks have
// their own keys.
func TestRescueAndUnrescue(t *testing.T) {
	t.Parallel()
	for name, v := range map[string]struct {
		setup     func(*testing.T) *bench
		image     compute.Image
		encrypted bool
	}{
		"a plain image":                 {spawned, rescueImage, false},
		"an encrypted image":            {spawned, sealedImage, true},
		"an encrypted image of a plain": {plain, sealedImage, true},
		"of a stopped":                  {stopped, rescueImage, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := withRescueKey(v.setup)(t)
			keys, made := len(b.secrets), b.count(key.Create.Name)
			own := b.row.server.Disks
			require.NoError(t, b.rescue(v.image))
			require.Empty(t, b.broken)
			require.Empty(t, b.audit())
			require.Empty(t, b.lent)
			require.Equal(t, compute.VMRescued, b.row.server.VMState)
			require.Equal(t, compute.RescueDisk, b.bootedFrom())
			require.True(t, b.hasRescueFile())
			d, ok := b.row.server.RescueDisk()
			require.True(t, ok)
			require.Equal(t, v.encrypted, d.Encrypted)
			require.Equal(t, v.encrypted, d.Secret != nil && *d.Secret == rescueKey)
			require.Equal(t, v.encrypted, len(d.EncryptionOptions) > 0)
			require.Equal(t, own, b.row.server.Unrescued().Disks)
			require.Equal(t, v.encrypted, len(b.uses) == 1)

			require.NoError(t, b.unrescue())
			require.Empty(t, b.broken)
			require.Empty(t, b.audit())
			require.Empty(t, b.lent)
			require.Equal(t, compute.VMActive, b.row.server.VMState)
			require.Equal(t, compute.RootDisk, b.bootedFrom())
			require.False(t, b.hasRescueFile())
			require.Empty(t, b.uses)
			require.Equal(t, own, b.row.server.Disks)
			require.Len(t, b.secrets, keys)
			require.Equal(t, made, b.count(key.Create.Name))
			require.Zero(t, b.count(removal(compute.ThingKeySecret)))
		})
	}
}

// A server that is reset while it is rescued stays on its rescue disk until it is
// unrescued, however it is started; a second rescue is refused.
func TestARescuedServerStaysRescued(t *testing.T) {
	t.Parallel()
	b := rescuedWith(sealedImage)(t)
	for _, again := range []struct {
		vm        compute.VMState
		kind      compute.OperationKind
		task      compute.TaskState
		arguments any
	}{
		{compute.VMError, compute.OpReboot, compute.TaskRebootingHard, compute.RebootArguments{Hard: true}},
		{compute.VMActive, compute.OpReboot, compute.TaskRebooting, compute.RebootArguments{}},
		{compute.VMStopped, compute.OpStart, compute.TaskPoweringOn, nil},
	} {
		b.row.server.VMState = again.vm
		require.NoError(t, b.run(again.kind, b.accept(again.kind, again.task, again.arguments), nil))
		require.Equal(t, compute.VMRescued, b.row.server.VMState)
		require.Equal(t, compute.RescueDisk, b.bootedFrom())
		require.Empty(t, b.broken)
		require.Empty(t, b.audit())
		require.Empty(t, b.lent)
	}
	b.row.server.VMState = compute.VMActive
	require.ErrorContains(t, b.rescue(rescueImage), "is on its rescue disk")
	require.Equal(t, compute.VMActive, b.row.server.VMState)
	require.True(t, b.hasRescueFile())
	b.row.server.VMState = compute.VMRescued
	require.NoError(t, b.unrescue())
	require.Equal(t, compute.RootDisk, b.bootedFrom())
}

// The delete of a rescued server leaves nothing but the image's key.
func TestDeleteOfARescuedServer(t *testing.T) {
	t.Parallel()
	b := rescuedWith(sealedImage)(t)
	in := b.deletion()
	require.NoError(t, b.run(compute.OpDelete, in, nil))
	b.gone(in)
	require.Equal(t, map[string]compute.SecretID{"somebody's": rescueKey}, b.secrets)
}

// A rescue that cannot be undone whole, since nobody may read the server's keys any
// more, ends all the same and says that the server is off. It is no longer than
// that: a start that is refused for a while is tried again.
func TestRescueThatCannotBootAgain(t *testing.T) {
	t.Parallel()
	for name, v := range map[string]struct {
		setup    func(*testing.T) *bench
		kind     compute.OperationKind
		task     compute.TaskState
		failure  error
		failures int // of starts
		vm       compute.VMState
		power    compute.PowerState
	}{
		"refused":             {spawned, compute.OpRescue, compute.TaskRescuing, compute.Errorf(compute.Forbidden, "not yours"), 100, compute.VMStopped, compute.PowerShutdown},
		"no room":             {spawned, compute.OpRescue, compute.TaskRescuing, compute.Errorf(compute.NoHost, "no room"), 100, compute.VMStopped, compute.PowerShutdown},
		"no room for a while": {spawned, compute.OpRescue, compute.TaskRescuing, compute.Errorf(compute.NoHost, "no room"), 5, compute.VMActive, compute.PowerRunning},
		"back to a rescue": {
			rescuedWith(rescueImage), compute.OpUnrescue, compute.TaskUnrescuing, compute.Errorf(compute.Forbidden, "not yours"), 100,
			compute.VMRescued, compute.PowerShutdown,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := v.setup(t)
			b.fault = func(c call) fault {
				if c.name == domain.Start.Name && c.nth <= v.failures {
					return fault{before: func() error { return v.failure }}
				}
				return fault{}
			}
			in := b.accept(v.kind, v.task, compute.RescueArguments{Image: rescueImage})
			require.Error(t, b.run(v.kind, in, nil))
			require.Equal(t, compute.OperationFailed, b.operations[in.Operation].State)
			require.Empty(t, b.broken)
			require.Empty(t, b.audit())
			require.Empty(t, b.lent)
			require.Equal(t, v.vm, b.row.server.VMState)
			require.Equal(t, v.power, b.row.server.PowerState)
			require.Equal(t, []compute.PowerState{v.power}, b.power())
			require.Equal(t, v.kind == compute.OpUnrescue, b.hasRescueFile())
			if v.kind == compute.OpUnrescue {
				b.fault = nil
				require.NoError(t, b.unrescue(), "it can be tried again")
				require.Equal(t, compute.RootDisk, b.bootedFrom())
			}
		})
	}
}

// EE-26: an image's key that the caller may not read fails the rescue before the
// server is shut down.
func TestRescueWithAKeyThatCannotBeRead(t *testing.T) {
	t.Parallel()
	b := spawned(t)
	require.Error(t, b.rescue(sealedImage))
	require.Empty(t, b.audit())
	require.Equal(t, compute.VMActive, b.row.server.VMState)
	require.Zero(t, b.count(domain.Stop.Name))
	require.False(t, b.hasRescueFile())
	require.Zero(t, b.count(disk.Create.Name), "no disk is begun")
}
