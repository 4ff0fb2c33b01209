package workflows_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/key"
	"strongroom/compute"
)

func (b *bench) backup(name string, rotation int) (compute.ImageID, error) {
	b.t.Helper()
	id := compute.ImageID{UUID: uuid.New()}
	in := b.accept(compute.OpCreateBackup, compute.TaskSnapshotPending, compute.SnapshotArguments{
		Image: id, Name: name, Key: compute.KeySame, Backup: &compute.Backup{Type: "daily", Rotation: rotation},
	})
	return id, b.run(compute.OpCreateBackup, in, nil)
}

// backedUp is a bench with an active server of which there is a backup.
func backedUp(t *testing.T) *bench {
	b := spawned(t)
	_, err := b.backup("yesterday's", 1)
	require.NoError(t, err)
	b.forget()
	return b
}

// EE-22: a backup has the server's key, in a secret of its own. Those that are one
// too many go, and their keys with them as their deletion policy says.
func TestBackupsRotate(t *testing.T) {
	t.Parallel()
	b := spawned(t)
	keys := len(b.secrets)
	var made []compute.ImageID
	for range 4 {
		id, err := b.backup("nightly", 2)
		require.NoError(t, err)
		made = append(made, id)
		if len(made) == 1 {
			b.images[id.String()].Properties["os_encrypt_key_deletion_policy"] = "False" // its owner keeps the key
		}
	}
	require.Empty(t, b.broken)
	require.Empty(t, b.audit())
	require.Len(t, b.images, 2)
	for i, id := range made {
		require.Equal(t, i >= 2, b.images[id.String()] != nil)
	}
	require.Equal(t, "backup", b.images[made[3].String()].Properties["image_type"])
	require.Equal(t, "daily", b.images[made[3].String()].Properties["backup_type"])
	require.Equal(t, 4, b.count(key.Copy.Name))
	require.Len(t, b.secrets, keys+3, "those of two backups, and the one that its owner kept")

	_, err := b.backup("none", 0)
	require.NoError(t, err)
	require.Empty(t, b.images, "a rotation of 0 keeps none")
	in := b.deletion()
	require.NoError(t, b.run(compute.OpDelete, in, nil))
	b.gone(in)
}

// A key of a backup that is gone is found by no later backup: it waits (EE-22).
func TestTheKeyOfABackupThatCannotBeRemoved(t *testing.T) {
	t.Parallel()
	b := backedUp(t)
	b.fault = func(c call) fault {
		if c.name == removal(compute.ThingKeySecret) {
			return fault{before: func() error { return compute.Errorf(compute.Unavailable, "away") }}
		}
		return fault{}
	}
	_, err := b.backup("today's", 1)
	require.NoError(t, err)
	require.Len(t, b.images, 1)
	found := b.audit()
	require.Len(t, found, 1)
	require.Equal(t, compute.Failing, found[0].What)
	require.Equal(t, "away", found[0].Why)
	b.reaps(0, 1)
	b.fault = nil
	b.reaps(1, 0)
	require.Empty(t, b.audit())
	require.Empty(t, b.broken)
}

// A backup that may not be removed is shown in the trail, and the new one stays.
func TestABackupThatCannotBeRemoved(t *testing.T) {
	t.Parallel()
	b := backedUp(t)
	b.fault = func(c call) fault {
		if c.name == removal(compute.ThingImage) {
			return fault{before: func() error { return compute.Errorf(compute.Forbidden, "image is protected") }}
		}
		return fault{}
	}
	_, err := b.backup("today's", 1)
	require.NoError(t, err)
	require.Len(t, b.images, 2)
	require.Empty(t, b.audit())
	require.Zero(t, b.count(removal(compute.ThingKeySecret)), "its key stays with it")
	trail := ""
	for event, result := range b.events {
		if len(event) > 40 && event[41:] == "rotate_backups" {
			trail += result
		}
	}
	require.Contains(t, trail, "image is protected")
	b.fault = nil
	_, err = b.backup("tomorrow's", 1)
	require.NoError(t, err)
	require.Len(t, b.images, 1, "the next one tries again")
}

// EE-44: the key of a backup that goes stays while another image is encrypted with it, be it one
// that strongroom made or one of its user's own.
func TestEE44TheKeyOfABackupThatAnotherImageNames(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"existing", "user"} {
		b := backedUp(t)
		var old string
		for _, img := range b.images {
			old = img.Properties["os_encrypt_key_id"]
		}
		id := compute.SecretID{UUID: uuid.MustParse(old)}
		if by == "existing" {
			require.NoError(t, b.snapshot(compute.KeyExisting, &id))
			delete(b.images[imageID.String()].Properties, "os_encrypt_key_id") // what the record says counts
		} else {
			b.images["theirs"] = &storedImage{Image: compute.Image{Properties: map[string]string{"os_encrypt_key_id": old}}}
		}
		_, err := b.backup("today's", 1)
		require.NoError(t, err)
		require.True(t, b.has(&id), by)
		require.Zero(t, b.count(removal(compute.ThingKeySecret)), by)
		require.Len(t, b.images, 2)
	}
}
