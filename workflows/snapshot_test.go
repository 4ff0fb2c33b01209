package workflows_test

import (
	"maps"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/disk"
	"strongroom/activities/domain"
	"strongroom/activities/key"
	"strongroom/compute"
	"strongroom/durable"
)

func (b *bench) snapshot(choice compute.KeyChoice, secret *compute.SecretID) error {
	b.t.Helper()
	in := b.accept(compute.OpCreateImage, compute.TaskSnapshotPending,
		compute.SnapshotArguments{Image: imageID, Name: "copy", Metadata: map[string]string{"a": "b"}, Key: choice, Secret: secret})
	return b.run(compute.OpCreateImage, in, nil)
}

// EE-16 … EE-19, EE-23: each choice makes its own image, and from the commit on
// image and key are their owner's: a delete of the server leaves them (EE-28).
func TestSnapshotKeys(t *testing.T) {
	t.Parallel()
	own := compute.SecretID{UUID: uuid.New()}
	for name, v := range map[string]struct {
		setup  func(*testing.T) *bench
		choice compute.KeyChoice
		secret *compute.SecretID
		made   string // how the image's key was made
		policy string // "": the image is plain
	}{
		"same":                {spawned, compute.KeySame, nil, key.Copy.Name, "True"},
		"same of a plain":     {plain, compute.KeySame, nil, "", ""},
		"new":                 {spawned, compute.KeyNew, nil, key.Create.Name, "True"},
		"new of a plain":      {plain, compute.KeyNew, nil, key.Create.Name, "True"},
		"existing":            {spawned, compute.KeyExisting, &own, "", "False"},
		"existing of a plain": {plain, compute.KeyExisting, &own, "", "False"},
		"none":                {spawned, compute.KeyNone, nil, "", ""},
		"of a stopped":        {stopped, compute.KeySame, nil, key.Copy.Name, "True"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := v.setup(t)
			b.secrets["somebody's"], b.owned["somebody's"] = own, true
			keys := b.count(key.Create.Name)
			require.NoError(t, b.snapshot(v.choice, v.secret))
			require.Empty(t, b.broken)
			require.Empty(t, b.audit())
			require.Empty(t, b.exports)
			img := b.images[imageID.String()]
			require.NotEmpty(t, img.data)
			require.Equal(t, "b", img.Properties["a"])
			require.Equal(t, v.policy, img.Properties["os_encrypt_key_deletion_policy"])
			require.Equal(t, b.row.server.VMState == compute.VMActive, b.count(domain.Export.Name) == 1)
			require.Equal(t, b.row.server.VMState == compute.VMStopped, b.count(disk.Export.Name) == 1)
			require.Equal(t, v.made == key.Copy.Name, b.count(key.Copy.Name) == 1)
			require.Equal(t, v.made == key.Create.Name, b.count(key.Create.Name) == keys+1)
			if id := img.Properties["os_encrypt_key_id"]; v.secret != nil {
				require.Equal(t, own.String(), id)
			} else if v.made != "" {
				secret := compute.SecretID{UUID: uuid.MustParse(id)}
				require.True(t, b.has(&secret))
			}
			in := b.deletion()
			require.NoError(t, b.run(compute.OpDelete, in, nil))
			b.gone(in)
			require.NotNil(t, b.images[imageID.String()])
			left := 1 // somebody's
			if v.made != "" {
				left++ // the image's
			}
			require.Len(t, b.secrets, left)
		})
	}
}

func plain(t *testing.T) *bench {
	b := newBench(t, false)
	require.NoError(t, b.run(compute.OpCreate, b.accept(compute.OpCreate, compute.TaskScheduling, nil), nil))
	b.forget()
	return b
}

// EE-18, EE-39: a key that the caller may not read fails the action, and takes back the
// image's record.
func TestSnapshotWithAKeyThatCannotBeRead(t *testing.T) {
	t.Parallel()
	b := spawned(t)
	require.Error(t, b.snapshot(compute.KeyExisting, &compute.SecretID{UUID: uuid.New()}))
	require.Empty(t, b.audit())
	require.Empty(t, b.images)
	require.Equal(t, compute.VMActive, b.row.server.VMState)
	require.Equal(t, compute.TaskNone, b.row.server.TaskState)
	require.Zero(t, b.count(domain.Export.Name))
	require.Equal(t, 1, b.count(removal(compute.ThingImage)))
}

// EE-40: of a running server whose disk's key somebody deleted its owner makes an image with
// another key, which is his alone; nobody else does, for nobody knows who could read that key. Without
// it nothing is copied, and what is told names it and says what can be done.
func TestEE40ImageOfADiskWhoseKeyIsGone(t *testing.T) {
	t.Parallel()
	own := compute.SecretID{UUID: uuid.New()}
	for name, v := range map[string]struct {
		setup  func(*testing.T) *bench
		choice compute.KeyChoice
		secret *compute.SecretID
		owner  string
		may    bool
	}{
		"new":              {spawned, compute.KeyNew, nil, "u1", true},
		"none":             {spawned, compute.KeyNone, nil, "u1", true},
		"existing":         {spawned, compute.KeyExisting, &own, "u1", true},
		"same":             {spawned, compute.KeySame, nil, "u1", false},
		"another's server": {spawned, compute.KeyNew, nil, "u2", false},
		"a stopped one":    {stopped, compute.KeyNew, nil, "u1", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := v.setup(t)
			b.row.server.UserID = v.owner
			lost := *b.row.server.Disks[0].Secret
			maps.DeleteFunc(b.secrets, func(_ string, id compute.SecretID) bool { return id == lost })
			b.secrets["somebody's"], b.owned["somebody's"] = own, true
			err := b.snapshot(v.choice, v.secret)
			require.Empty(t, b.broken)
			require.Empty(t, b.exports)
			if !v.may {
				require.ErrorContains(t, err, "read secret "+lost.String())
				require.ErrorContains(t, err, "can be rebuilt")
				require.ErrorContains(t, err, "another key than 'same'")
				require.Empty(t, b.images)
				require.Zero(t, b.count(domain.Export.Name)+b.count(disk.Export.Name))
				return
			}
			require.NoError(t, err)
			require.NotEmpty(t, b.images[imageID.String()].data)
			require.Equal(t, v.choice == compute.KeyNew, b.private)
		})
	}
}

// EE-46: the key of a server's disk does not become an image's: it would go with the disk. The
// message says what to do instead, and neither image nor copy is made.
func TestEE46AnImageDoesNotTakeAServersKey(t *testing.T) {
	t.Parallel()
	b := spawned(t)
	err := b.snapshot(compute.KeyExisting, b.row.server.Disks[0].Secret)
	require.Error(t, err)
	require.Equal(t, compute.Conflict, durable.FromTemporal(err).Kind, "%v", err)
	require.ErrorContains(t, err, "encryption.key 'same'")
	require.Empty(t, b.audit())
	require.Empty(t, b.images)
	require.Empty(t, b.exports)
	require.Zero(t, b.count(domain.Export.Name))
	require.True(t, b.has(b.row.server.Disks[0].Secret))
}
