package compute_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

// EE-18: a choice names a secret exactly when it needs one.
func TestCheckKeyChoice(t *testing.T) {
	t.Parallel()
	id := &compute.SecretID{UUID: uuid.New()}
	for _, c := range []struct {
		choice compute.KeyChoice
		secret *compute.SecretID
		ok     bool
	}{
		{compute.KeySame, nil, true}, {compute.KeyNew, nil, true}, {compute.KeyNone, nil, true}, {compute.KeyExisting, id, true},
		{compute.KeySame, id, false}, {compute.KeyNew, id, false}, {compute.KeyNone, id, false}, {compute.KeyExisting, nil, false},
	} {
		err := compute.CheckKeyChoice(c.choice, c.secret)
		require.Equal(t, c.ok, err == nil, "%s %v: %v", c.choice, c.secret, err)
		if !c.ok {
			require.True(t, compute.Is(err, compute.Invalid))
		}
	}
}

// EE-24: nothing that speaks of the source image's key or bytes goes over, nor can
// the caller's metadata bring it back.
func TestSnapshotImage(t *testing.T) {
	t.Parallel()
	source := compute.Image{ID: compute.ImageID{UUID: uuid.New()}, MinRAMMB: 64, Properties: map[string]string{
		"os_encrypt_key_id": "k", "os_encrypt_key_deletion_policy": "True", "os_decrypt_size": "1", "hw_ephemeral_encryption_secret_uuid": "k",
		"cinder_encryption_key_id": "k", "img_signature": "s", "image_type": "other", "hw_tpm_version": "2.0", "os_distro": "debian",
	}}
	s := compute.Server{ID: server, UserID: "owner", Image: source, Flavor: compute.Flavor{RootGB: 3}}
	in := compute.SnapshotArguments{
		Image: compute.ImageID{UUID: uuid.New()}, Name: "copy",
		Metadata: map[string]string{"mine": "yes", "os_distro": "mine", "os_encrypt_key_id": "stolen", "backup_type": "daily", "instance_uuid": "other"},
	}
	img := compute.SnapshotImage(s, in)
	require.Equal(t, in.Image, img.ID)
	require.Equal(t, "copy", img.Name)
	require.Equal(t, 3, img.MinDiskGB)
	require.Equal(t, 64, img.MinRAMMB)
	require.Equal(t, map[string]string{
		"hw_tpm_version": "2.0", "os_distro": "mine", "mine": "yes", "image_type": "snapshot", "instance_uuid": server.String(),
		"user_id": "owner", "base_image_ref": source.ID.String(),
	}, img.Properties)
}

// P7: whoever asks for an image says of what type it is, unless it is a backup.
func TestP7TheTypeOfAnImageIsTheRequests(t *testing.T) {
	t.Parallel()
	s := compute.Server{ID: server, Image: compute.Image{Properties: map[string]string{"image_type": "of the source"}}}
	in := compute.SnapshotArguments{Metadata: map[string]string{"image_type": "test"}}
	require.Equal(t, "test", compute.SnapshotImage(s, in).Properties["image_type"])
	in.Backup = &compute.Backup{Type: "daily"}
	require.True(t, compute.SnapshotImage(s, in).IsBackup(server, "daily"))
	require.Equal(t, "snapshot", compute.SnapshotImage(s, compute.SnapshotArguments{}).Properties["image_type"])
}
