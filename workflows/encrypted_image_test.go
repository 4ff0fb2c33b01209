package workflows_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/key"
	"strongroom/compute"
	"strongroom/durable"
)

// onEncryptedImage is a bench whose server is to be made of an encrypted image.
func onEncryptedImage(t *testing.T) *bench {
	b := newBench(t, true)
	b.encryptImage()
	return b
}

// encryptImage has the server's image encrypted. Its secret is its owner's.
func (b *bench) encryptImage() {
	source := compute.SecretID{UUID: uuid.New()}
	b.secrets["the image's"], b.owned["the image's"] = source, true
	img := &b.row.server.Image
	img.SHA256, img.Properties = strings.Repeat("ab", 32), map[string]string{"os_encrypt_key_id": source.String(), "os_encrypt_format": "LUKSv1"}
}

// EE-11, EE-12: the root disk has a secret of its own and a copy of the image's, and
// no other disk has one; the image's own is on no record of the server.
func TestSpawnOfAnEncryptedImage(t *testing.T) {
	t.Parallel()
	b := onEncryptedImage(t)
	in := b.accept(compute.OpCreate, compute.TaskScheduling, nil)
	require.NoError(t, b.run(compute.OpCreate, in, nil))
	b.whole(in, compute.OpCreate)
	s := b.row.server
	root, _ := s.RootDisk()
	require.NotNil(t, root.BackingSecret)
	require.NotEqual(t, *root.Secret, *root.BackingSecret)
	require.NotEqual(t, b.secrets["the image's"], *root.BackingSecret)
	require.True(t, b.has(root.BackingSecret))
	for _, d := range s.Disks[1:] {
		require.Nil(t, d.BackingSecret)
	}
	require.Equal(t, 1, b.count(key.Copy.Name))
	require.Len(t, b.uses, 1)

	// Its delete takes the copy of the image after the disks, the copy of the key
	// after both, and leaves the image's key.
	b.forget()
	in = b.deletion()
	require.NoError(t, b.run(compute.OpDelete, in, nil))
	require.Empty(t, b.broken)
	require.Empty(t, b.uses)
	require.Equal(t, map[string]compute.SecretID{"the image's": b.secrets["the image's"]}, b.secrets)
	names := b.names()
	last := func(name string) int {
		for i, c := range slices.Backward(names) {
			if c.name == name {
				return i
			}
		}
		return -1
	}
	first := slices.IndexFunc(names, func(c call) bool { return c.name == removal(compute.ThingKeySecret) })
	require.Less(t, last(removal(compute.ThingDiskFile)), last(removal(compute.ThingCachedImage)))
	require.Less(t, last(removal(compute.ThingCachedImage)), first)
}

// EE-15: who may not read the image's secret gets a server in ERROR that says so,
// and nothing else.
func TestSpawnOfAnImageThatCannotBeRead(t *testing.T) {
	t.Parallel()
	b := onEncryptedImage(t)
	in := b.accept(compute.OpCreate, compute.TaskScheduling, nil)
	b.fault = func(c call) fault {
		if c.name != key.Copy.Name {
			return fault{}
		}
		return fault{before: func() error { return compute.Errorf(compute.Forbidden, "secret x: you may not") }}
	}
	require.Error(t, b.run(compute.OpCreate, in, nil))
	b.early(in, subjects["spawn of an encrypted image"], compute.OperationFailed, compute.VMError, compute.PowerNone)
	require.Equal(t, 403, b.row.fault.Code)
	require.Contains(t, b.row.fault.Message, "you may not")
}

// A host that never took the work has nothing to give back, however long it is away.
func TestSpawnOfAnEncryptedImagePassesASilentHostBy(t *testing.T) {
	t.Parallel()
	b := onEncryptedImage(t)
	in := b.accept(compute.OpCreate, compute.TaskScheduling, nil)
	require.NoError(t, b.run(compute.OpCreate, in, b.hushed(1)))
	b.whole(in, compute.OpCreate)
	for use := range b.uses {
		require.True(t, strings.HasPrefix(use, b.hosts[1].String()))
	}

	b = onEncryptedImage(t)
	in = b.accept(compute.OpCreate, compute.TaskScheduling, nil)
	err := b.run(compute.OpCreate, in, b.hushed(2))
	require.True(t, compute.Is(durable.FromTemporal(err), compute.NoHost))
	b.early(in, subjects["spawn of an encrypted image"], compute.OperationFailed, compute.VMError, compute.PowerNone)
	require.Zero(t, b.count(removal(compute.ThingCachedImage)), "nobody is asked who is not there")
}

// A host that took the work and died of it has the image, and is given up all the same.
// What it has is on the ledger until it is back, and holds nothing up.
func TestAHostThatDiesWithTheImage(t *testing.T) {
	t.Parallel()
	died := func() *bench {
		b := onEncryptedImage(t)
		in := b.accept(compute.OpCreate, compute.TaskScheduling, nil)
		require.NoError(t, b.run(compute.OpCreate, in, silenced(&silence{hosts: b.hosts[:1], quick: true, die: true})))
		require.Equal(t, compute.VMActive, b.row.server.VMState)
		require.Equal(t, b.hosts[1], *b.row.server.Host)
		require.Len(t, b.uses, 2)
		found := b.audit()
		require.Len(t, found, 1)
		require.Equal(t, compute.Stranded, found[0].What)
		require.Equal(t, b.hosts[0].String(), found[0].Place)
		return b
	}
	b := died()
	b.fault = func(c call) fault { // it is still away
		if c.name != removal(compute.ThingCachedImage) {
			return fault{}
		}
		return fault{before: func() error { return compute.Errorf(compute.Corrupt, "away") }}
	}
	b.reaps(0, 1)
	require.Equal(t, "away", b.audit()[0].Why)
	b.fault = nil
	b.reaps(1, 0)
	require.Len(t, b.uses, 1)
	require.Empty(t, b.audit())

	// Nor does the undo of a create wait for it,
	b = onEncryptedImage(t)
	in := b.accept(compute.OpCreate, compute.TaskScheduling, nil)
	err := b.run(compute.OpCreate, in, silenced(&silence{hosts: b.hosts, quick: true, die: true}))
	require.True(t, compute.Is(durable.FromTemporal(err), compute.NoHost))
	require.Equal(t, compute.VMError, b.row.server.VMState)
	require.Zero(t, b.count(removal(compute.ThingCachedImage)))
	require.Len(t, b.audit(), len(b.hosts))
	b.reaps(len(b.hosts), 0)
	require.Empty(t, b.uses)
	require.Empty(t, b.audit())

	// nor a delete.
	b = died()
	b.fault = func(c call) fault {
		if c.name == removal(compute.ThingCachedImage) && strings.Contains(c.detail, b.hosts[0].String()) {
			return fault{before: func() error { return compute.Errorf(compute.Corrupt, "away") }}
		}
		return fault{}
	}
	require.NoError(t, b.run(compute.OpDelete, b.deletion(), nil))
	b.fault = nil
	require.Len(t, b.uses, 1)
	b.reaps(1, 0)
	require.Empty(t, b.uses)
	require.Empty(t, b.audit())
}

// EE-11: nor does a disk in a pool, which is noted when it is made: by a create, or by a rebuild.
func TestADiskInAPoolDoesNotNeedTheKeyOfItsImage(t *testing.T) {
	t.Parallel()
	created := func() *bench {
		b := onEncryptedImage(t)
		b.pool = true
		require.NoError(t, b.run(compute.OpCreate, b.accept(compute.OpCreate, compute.TaskScheduling, nil), nil))
		return b
	}
	rebuilt := func() *bench {
		b := withTheImagesKey(withoutTPM)(t)
		b.pool = true
		_, err := b.rebuild(toEncrypted())
		require.NoError(t, err)
		return b
	}
	for name, start := range map[string]func() *bench{"created": created, "rebuilt": rebuilt} {
		b := start()
		root := b.row.server.Disks[0]
		require.True(t, root.Whole, name)
		maps.DeleteFunc(b.secrets, func(_ string, id compute.SecretID) bool { return id == *root.BackingSecret })
		require.NoError(t, b.run(compute.OpReboot, b.accept(compute.OpReboot, compute.TaskRebootingHard, compute.RebootArguments{Hard: true}), nil), name)
		require.NoError(t, b.run(compute.OpRescue, b.accept(compute.OpRescue, compute.TaskRescuing, subjects["rescue"].arguments), nil), name)
	}
}

// EE-11: a file lies under a disk of qcow2 alone, and opens with the copy of its image's key. A disk on a device has all of its data in itself: where that copy
// is lost, its server is rebooted, rescued, rebuilt and made into an image all the same.
func TestADiskOnADeviceDoesNotNeedTheKeyOfItsImage(t *testing.T) {
	t.Parallel()
	for format, needs := range map[compute.DiskFormat]bool{compute.FormatLUKS: true, compute.FormatLUKSv2: false, compute.FormatPlain: false} {
		for kind, ask := range map[compute.OperationKind]struct {
			task      compute.TaskState
			arguments any
		}{
			compute.OpReboot:      {compute.TaskRebootingHard, compute.RebootArguments{Hard: true}},
			compute.OpRescue:      {compute.TaskRescuing, subjects["rescue"].arguments},
			compute.OpRebuild:     {compute.TaskRebuilding, toEncrypted()},
			compute.OpCreateImage: {subjects["snapshot of a running server"].task, subjects["snapshot of a running server"].arguments},
		} {
			b := onItself(t)
			root := &b.row.server.Disks[0]
			root.Format = format
			maps.DeleteFunc(b.secrets, func(_ string, id compute.SecretID) bool { return id == *root.BackingSecret })
			err := b.run(kind, b.accept(kind, ask.task, ask.arguments), nil)
			if !needs {
				require.NoError(t, err, "%s %s", format, kind)
				continue
			}
			require.Equal(t, compute.NotFound, durable.FromTemporal(err).Kind, "%s %s", format, kind)
			require.Equal(t, []compute.PowerState{compute.PowerRunning}, b.power(), "it is not even shut down")
		}
	}
}
