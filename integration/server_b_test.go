package integration_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"libvirt.org/go/libvirtxml"
)

// EE-07, EE-11: the document's instance B, of an encrypted image of A, with root, ephemeral and swap disk: it has four
// secrets of its own, one of them the copy of the image's for the file under its root disk. They are on record, libvirt
// opens each file with its own, they are all that it needs when A, the image and the image's secret are gone, and they go
// with it.
func TestEE11ServerBHasFourSecrets(t *testing.T) {
	backends(t, openStack, local)
	c := ownCloud(t)
	a, note := c.noted(t, encrypted, c.image)
	image := c.createImage(t, a, "of-a", map[string]any{"key": "new"})
	opener := keyOf(t, image, c.passphrases(t))
	require.NotEmpty(t, opener)

	three := flavorSpec{"e2e-b", 128, 1, 1, 64, map[string]string{"hw:ephemeral_encryption": "true"}}
	b := c.createOf(t, three, image.ID)
	c.becomes(t, b, "ACTIVE")
	require.Contains(t, c.tell(t, b, "cat note", "TG cat "), note)

	disks, secrets := c.disks(t, b), map[string]bool{}
	require.Len(t, disks, 3)
	for _, d := range disks {
		require.True(t, d.Encrypted, d.Role)
		require.Equal(t, "luks", d.Format, d.Role)
		require.NotEmpty(t, d.Options, d.Role)
		require.NotEmpty(t, d.Secret, d.Role)
		require.Equal(t, d.Role == "root", d.Backing != "", "the root disk alone has a file under it")
		secrets[d.Secret] = true
		if d.Backing != "" {
			secrets[d.Backing] = true
		}
	}
	require.Len(t, secrets, 4)
	require.NotContains(t, secrets, image.Properties["os_encrypt_key_id"])

	keys, copies := c.passphrases(t), 0
	names := c.keysOf(t, b)
	require.Len(t, names, 4)
	for _, name := range names {
		if bytes.Equal(keys[name], opener) {
			copies++
		}
	}
	require.Equal(t, 1, copies, "one has the image's passphrase")

	var domain libvirtxml.Domain
	require.NoError(t, domain.Unmarshal(c.remains(t, c.Host(1), b).Domain))
	opened := 0
	for _, d := range domain.Devices.Disks {
		require.NotNil(t, d.Source.Encryption, d.Target.Dev)
		require.True(t, secrets[d.Source.Encryption.Secrets[0].UUID], d.Target.Dev)
		opened++
		if under := d.BackingStore; under != nil && under.Source != nil && under.Source.Encryption != nil { // not that of an ephemeral disk
			require.NotEqual(t, d.Source.Encryption.Secrets[0].UUID, under.Source.Encryption.Secrets[0].UUID)
			require.True(t, secrets[under.Source.Encryption.Secrets[0].UUID])
			opened++
		}
	}
	require.Equal(t, 4, opened)

	c.delete(t, a)
	c.deleteImage(t, image) // with its secret
	c.shutOff(t, b)
	c.startAgain(t, b)
	require.Contains(t, c.tell(t, b, "cat note", "TG cat "), note)
	c.delete(t, b)
	require.Empty(t, c.keysOf(t, b))
	c.nothingIsLeft(t)
}
