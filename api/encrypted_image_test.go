package api_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

// EE-13: an encrypted image makes encrypted disks, on a host that can, whatever the
// flavor leaves open; what is recorded of the disks is not the image's secret.
func TestCreateOfAnEncryptedImage(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"qcow2", "raw", "luks"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			c := setupCloud(t)
			secret := uuid.New()
			image := c.addImage(func(i *compute.Image) {
				i.DiskFormat = format
				i.Properties["os_encrypt_key_id"], i.Properties["os_encrypt_format"] = secret.String(), "LUKSv1"
			})
			c.do(t, member, "POST", "/servers", c.body(map[string]any{"imageRef": image}), at("2.90")).ok(202)
			require.Equal(t, []compute.SecretID{{UUID: secret}}, c.keys.looked)
			require.Len(t, c.keys.asked, 1, "its disks need keys")
			require.Equal(t, 1, c.count(`SELECT count(*) FROM servers WHERE required_traits @> '{COMPUTE_EPHEMERAL_ENCRYPTION}'`))
			require.Zero(t, c.count(`SELECT count(*) FROM server_disks WHERE NOT encrypted OR encryption_format <> 'luks'
				OR backing_encryption_secret_uuid IS NOT NULL OR encryption_secret_uuid IS NOT NULL`))
		})
	}
}

// EE-15: who may not read the image's secret is told so at once.
func TestCreateOfAnImageThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for name, v := range map[string]struct {
		answer        error
		code          int
		kind, message string
	}{
		"not his": {compute.Errorf(compute.Forbidden, "no"), 403, "forbidden", "Image IMAGE is encrypted, and your token may not read secret SECRET, which opens it. " +
			"Its owner can let you, with an ACL in the key manager."},
		"not there": {compute.Errorf(compute.NotFound, "no"), 403, "forbidden", "Image IMAGE is encrypted, and the key manager does not have secret SECRET, " + // EE-40
			"which opens it: somebody deleted it. Until its operator restores it no server can be made of this image. Servers and other images have secrets of their own."},
		"no passphrase": {compute.Errorf(compute.Invalid, "bytes"), 400, "badRequest", "Image IMAGE is encrypted, and what secret SECRET holds is no passphrase."},
		"away": {compute.Errorf(compute.Unavailable, "away"), 503, "serviceUnavailable",
			"The key manager is not available: servers cannot be made of encrypted images now."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := setupCloud(t)
			secret := uuid.NewString()
			image := c.addImage(func(i *compute.Image) { i.Properties["os_encrypt_key_id"] = secret })
			c.keys.unread = v.answer
			got := c.do(t, member, "POST", "/servers", c.body(map[string]any{"imageRef": image}), at("2.90"))
			got.fails(v.code, v.kind, strings.NewReplacer("IMAGE", image, "SECRET", secret).Replace(v.message))
			require.Zero(t, c.count("SELECT (SELECT count(*) FROM servers) + (SELECT count(*) FROM credentials)"))
		})
	}
}
