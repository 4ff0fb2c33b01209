package compute_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

func TestDMCryptOptions(t *testing.T) {
	t.Parallel()
	for _, v := range []struct {
		cipher string
		size   int
		hash   string
		alg    string // "": refused
	}{
		{"aes-xts-plain64", 512, "ripemd160", "aes-256"}, {"aes-xts-plain64", 256, "sha256", "aes-128"}, {"aes-cbc-essiv:sha256", 256, "sha1", "aes-256"},
		{"aes", 256, "sha1", ""}, {"", 512, "sha1", ""}, {"aes-xts-", 512, "sha1", ""}, {"aes-xts-plain64", 0, "sha1", ""},
		{"aes-xts-plain64", -512, "sha1", ""}, {"aes-cbc-plain", 100, "sha1", ""}, {"aes-cbc-plain --x", 256, "sha1", ""},
		{"aes-xts-plain64", 512, "", ""}, {"aes-xts-plain64", 512, "--readonly", ""}, {"aes-xts-plain64", 512, "a b", ""},
	} {
		how := compute.DMCrypt{Cipher: v.cipher, KeySize: v.size, Hash: v.hash}
		got, err := how.Options()
		require.Equal(t, v.alg, got["cipher-alg"], v)
		require.Equal(t, v.alg == "", compute.Is(err, compute.Invalid), "%v", err)
		if v.alg != "" { // EE-42: what opens a disk is what its options say
			again, err := compute.DMCryptOf(got)
			require.NoError(t, err)
			require.Equal(t, how, again)
		}
	}
	for _, options := range []map[string]string{nil, {"cipher-alg": "aes-256"}, {"cipher-alg": "aes-256", "key-size": "512", "cipher-mode": "xts", "ivgen-alg": "plain64"}} {
		_, err := compute.DMCryptOf(options)
		require.Equal(t, compute.Corrupt, compute.KindOf(err), "%v", options)
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
	// EE-42: what an import said of a disk stays with it.
	own := map[string]string{"cipher-alg": "aes-128"}
	imported, err := compute.Server{Disks: []compute.Disk{{Role: compute.RootDisk, EncryptionOptions: own}}}.WithLegacyKey(key, options)
	require.NoError(t, err)
	require.Equal(t, own, imported[0].EncryptionOptions)
	_, err = compute.Server{}.WithLegacyKey(key, options)
	require.True(t, compute.Is(err, compute.Conflict))
}

func TestForgivesIV(t *testing.T) {
	t.Parallel()
	for cipher, forgives := range map[string]bool{
		"aes-xts-plain64": false, "aes-cbc-essiv:sha256": true, "aes-cbc-plain64": true, "serpent-cbc-plain": true, "aes-cfb-plain64": true,
		"aes-ctr-plain64": false, "aes-lrw-benbi": false, "aes-ecb-null": false,
	} {
		require.Equal(t, forgives, compute.DMCrypt{Cipher: cipher}.ForgivesIV(), cipher)
	}
}
