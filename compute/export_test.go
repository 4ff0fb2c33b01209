package compute_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

// EE-16 … EE-19: which keys, formats and disks go together.
func TestExportTargetCheck(t *testing.T) {
	t.Parallel()
	some := &compute.SecretID{UUID: uuid.New()}
	for name, c := range map[string]struct {
		encrypted bool
		target    compute.ExportTarget
		ok        bool
	}{
		"same of an encrypted disk":   {true, compute.ExportTarget{Format: "qcow2", Key: "same", Secret: some}, true},
		"same as a container":         {true, compute.ExportTarget{Format: "luks", Key: "same", Secret: some}, true},
		"same without its secret":     {true, compute.ExportTarget{Format: "qcow2", Key: "same"}, false},
		"same of a plain disk":        {false, compute.ExportTarget{Format: "qcow2", Key: "same"}, true},
		"same of a plain disk, keyed": {false, compute.ExportTarget{Format: "qcow2", Key: "same", Secret: some}, false},
		"new":                         {true, compute.ExportTarget{Format: "qcow2", Key: "new", Secret: some}, true},
		"new of a plain disk":         {false, compute.ExportTarget{Format: "luks", Key: "new", Secret: some}, true},
		"new without a secret":        {false, compute.ExportTarget{Format: "qcow2", Key: "new"}, false},
		"existing":                    {true, compute.ExportTarget{Format: "qcow2", Key: "existing", Secret: some}, true},
		"existing without a secret":   {true, compute.ExportTarget{Format: "qcow2", Key: "existing"}, false},
		"none":                        {true, compute.ExportTarget{Format: "raw", Key: "none"}, true},
		"none with a secret":          {true, compute.ExportTarget{Format: "qcow2", Key: "none", Secret: some}, false},
		"raw with a secret":           {true, compute.ExportTarget{Format: "raw", Key: "new", Secret: some}, false},
		"luks without a secret":       {true, compute.ExportTarget{Format: "luks", Key: "none"}, false},
		"no choice":                   {false, compute.ExportTarget{Format: "qcow2"}, false},
		"an odd choice":               {false, compute.ExportTarget{Format: "qcow2", Key: "old"}, false},
		"no format":                   {false, compute.ExportTarget{Key: "none"}, false},
		"an odd format":               {false, compute.ExportTarget{Format: "vmdk", Key: "none"}, false},
	} {
		err := c.target.Check(compute.Disk{Encrypted: c.encrypted})
		if c.ok {
			require.NoError(t, err, name)
		} else {
			require.Equal(t, compute.Invalid, compute.KindOf(err), "%s: %v", name, err)
		}
	}
}

// EE-23: an encrypted image says how it is encrypted, and a server is made of it
// by that.
func TestEncryptionProperties(t *testing.T) {
	t.Parallel()
	key := compute.SecretID{UUID: uuid.MustParse("11111111-2222-4333-8444-555555555555")}
	made := compute.Export{VirtualBytes: 42 << 20, EncryptionOptions: map[string]string{
		"format": "luks", "cipher-alg": "aes-256", "cipher-mode": "xts", "ivgen-alg": "plain64", "hash-alg": "sha256", "iterations": "10000",
	}}
	want := map[string]string{
		"os_encrypt_format":              "LUKSv1",
		"os_encrypt_cipher":              "aes-256-xts-plain64",
		"os_encrypt_key_id":              key.String(),
		"os_encrypt_key_deletion_policy": "True",
		"os_decrypt_container_format":    "bare",
		"os_decrypt_size":                "44040192",
	}
	require.Equal(t, want, made.EncryptionProperties(key, true))
	want["os_encrypt_key_deletion_policy"] = "False" // a key that its owner named is not the image's to delete
	require.Equal(t, want, made.EncryptionProperties(key, false))

	enc, err := compute.EncryptionOf(compute.Flavor{}, compute.Image{Properties: want})
	require.NoError(t, err)
	require.Equal(t, compute.Encryption{Enabled: true, Format: compute.FormatLUKS, SourceSecret: &key, SourceFormat: compute.FormatLUKS}, enc)
	for property := range want {
		require.False(t, compute.Inherited(property), "%s would be another image's (EE-24)", property)
	}
	for property, inherited := range map[string]bool{
		"hw_ephemeral_encryption_secret_uuid": false, "cinder_encryption_key_id": false, "cinder_encryption_key_deletion_policy": false,
		"img_signature": false, "img_signature_key_type": false, "img_signature_certificate_uuid": false, "img_signature_hash_method": false,
		"os_encrypt_later": false, "os_decrypt_later": false,
		"os_distro": true, "hw_tpm_model": true, "hw_ephemeral_encryption": true, "hw_ephemeral_encryption_format": true, "img_config_drive": true,
	} {
		require.Equal(t, inherited, compute.Inherited(property), property)
	}
}
