package compute_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

func TestLegacyEncryptionOptions(t *testing.T) {
	t.Parallel()
	for _, v := range []struct {
		cipher string
		size   int
		alg    string // "": refused
	}{
		{"aes-xts-plain64", 512, "aes-256"}, {"aes-xts-plain64", 256, "aes-128"}, {"aes-cbc-essiv:sha256", 256, "aes-256"},
		{"aes", 256, ""}, {"", 512, ""}, {"aes-xts-", 512, ""}, {"aes-xts-plain64", 0, ""}, {"aes-xts-plain64", -512, ""}, {"aes-cbc-plain", 100, ""},
	} {
		got, err := compute.LegacyEncryption{Cipher: v.cipher, KeySize: v.size}.Options()
		require.Equal(t, v.alg, got["cipher-alg"], v)
		require.Equal(t, v.alg == "", compute.Is(err, compute.Invalid), "%v", err)
	}
	got, err := compute.DefaultLegacyEncryption.Options()
	require.NoError(t, err)
	require.Equal(t, map[string]string{"format": "plain", "key-size": "512", "hash-alg": "ripemd160", "cipher-alg": "aes-256", "cipher-mode": "xts", "ivgen-alg": "plain64"}, got)
}

// EE-35: all disks get the one key, and nothing else that they had is lost.
func TestWithLegacyKey(t *testing.T) {
	t.Parallel()
	key, other := compute.SecretID{UUID: uuid.New()}, compute.SecretID{UUID: uuid.New()}
	options := map[string]string{"cipher-alg": "aes-256"}
	bare := compute.Disk{Role: compute.RootDisk, SizeMB: 5}
	done := compute.Disk{Role: compute.RootDisk, SizeMB: 5, Encrypted: true, Secret: &key, Format: compute.FormatPlain, EncryptionOptions: options}
	for name, v := range map[string]struct {
		disk compute.Disk
		ok   bool
	}{
		"not yet":              {bare, true},
		"already":              {done, true},
		"saved by half":        {compute.Disk{Role: compute.RootDisk, SizeMB: 5, Secret: &key}, true},
		"only said encrypted":  {compute.Disk{Role: compute.RootDisk, SizeMB: 5, Encrypted: true}, true},
		"another key":          {compute.Disk{Role: compute.RootDisk, Encrypted: true, Secret: &other, Format: compute.FormatLUKS}, false},
		"another plain key":    {compute.Disk{Role: compute.RootDisk, Encrypted: true, Secret: &other, Format: compute.FormatPlain}, false},
		"luks without its key": {compute.Disk{Role: compute.RootDisk, Encrypted: true, Format: compute.FormatLUKS}, false},
	} {
		got, err := compute.Server{Disks: []compute.Disk{v.disk}}.WithLegacyKey(key, options)
		require.Equal(t, !v.ok, compute.Is(err, compute.Conflict), "%s: %v", name, err)
		if v.ok {
			require.Equal(t, []compute.Disk{done}, got, name)
		}
	}
	_, err := compute.Server{}.WithLegacyKey(key, options)
	require.True(t, compute.Is(err, compute.Conflict))
}
