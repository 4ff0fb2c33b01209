package compute_test

import (
	"maps"
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

// EE-45: an encrypted image does not say that servers of it must not be encrypted, which its
// source or the request may have said: a server can be made of it.
func TestEE45AnEncryptedImageAllowsEncryption(t *testing.T) {
	t.Parallel()
	root := compute.Disk{Role: compute.RootDisk}
	locked := root
	locked.Encrypted = true
	for name, c := range map[string]struct {
		key  compute.KeyChoice
		root compute.Disk
		says string
		want string
	}{
		"new":               {compute.KeyNew, root, "false", ""},
		"existing":          {compute.KeyExisting, root, "No", ""},
		"same, of plain":    {compute.KeySame, root, "false", "false"},
		"none":              {compute.KeyNone, root, "0", "0"},
		"same, of its own":  {compute.KeySame, locked, "false", ""},
		"new, and it asks":  {compute.KeyNew, root, "True", "True"},
		"none of encrypted": {compute.KeyNone, locked, "true", "true"},
	} {
		properties := map[string]string{"hw_ephemeral_encryption": c.says}
		for _, from := range []string{"image", "metadata"} {
			s := compute.Server{ID: server, Disks: []compute.Disk{c.root}}
			in := compute.SnapshotArguments{Image: compute.ImageID{UUID: uuid.New()}, Key: c.key}
			if from == "image" {
				s.Image.Properties = properties
			} else {
				in.Metadata = properties
			}
			img := compute.SnapshotImage(s, in)
			require.Equal(t, c.want, img.Properties["hw_ephemeral_encryption"], "%s, said by the %s", name, from)
			if c.want == "" {
				img.Properties["os_encrypt_key_id"] = uuid.NewString()
				enc, err := compute.EncryptionOf(compute.Flavor{}, img)
				require.NoError(t, err, name)
				require.True(t, enc.Enabled, name)
			}
		}
	}
}

// P7: whoever asks for an image says of what type it is, unless it is a backup, whose it is, and of which image. Of which server it is, what
// opens it and which backups it stands among, nobody says.
func TestP7TheTypeOfAnImageIsTheRequests(t *testing.T) {
	t.Parallel()
	s := compute.Server{ID: server, Image: compute.Image{Properties: map[string]string{"image_type": "of the source"}}}
	in := compute.SnapshotArguments{Metadata: map[string]string{"image_type": "test"}}
	require.Equal(t, "test", compute.SnapshotImage(s, in).Properties["image_type"])
	in.Backup = &compute.Backup{Type: "daily"}
	require.True(t, compute.SnapshotImage(s, in).IsBackup(server, "daily"))
	require.Equal(t, "snapshot", compute.SnapshotImage(s, compute.SnapshotArguments{}).Properties["image_type"])
	wins := map[string]string{"image_type": "test", "user_id": "another", "base_image_ref": "none", "os_distro": "mine"}
	in = compute.SnapshotArguments{Metadata: maps.Clone(wins)}
	for _, guarded := range []string{"instance_uuid", "backup_type", "os_encrypt_key_id", "os_decrypt_size", "hw_ephemeral_encryption_secret_uuid", "cinder_encryption_key_id",
		"img_signature", "os_hash_algo", "stores", "tpm_object_id", "block_device_mapping"} {
		in.Metadata[guarded] = "theirs"
	}
	wins["instance_uuid"] = server.String()
	require.Equal(t, wins, compute.SnapshotImage(s, in).Properties)
}
