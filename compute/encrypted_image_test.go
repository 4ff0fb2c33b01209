package compute_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

// EE-13: an image is encrypted if it names a key, whatever else it says.
func TestImageEncryption(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		image   compute.Image
		format  compute.DiskFormat
		backing string // "": refused
		plain   bool
	}{
		"plain qcow2":         {image: of("qcow2"), plain: true, backing: "qcow2"},
		"plain raw":           {image: of("raw"), plain: true, backing: "raw"},
		"a format alone":      {image: of("raw", "os_encrypt_format", "luks"), plain: true, backing: "raw"},
		"a container, no key": {image: of("luks"), plain: true},
		"vmdk":                {image: of("vmdk"), plain: true},
		"as snapshots say it": {image: of("qcow2", "os_encrypt_key_id", keyID, "os_encrypt_format", "LUKSv1"), format: "luks", backing: "qcow2"},
		"no format":           {image: of("qcow2", "os_encrypt_key_id", keyID), backing: "qcow2"},
		"luks":                {image: of("raw", "os_encrypt_key_id", keyID, "os_encrypt_format", "LUKS"), format: "luks", backing: "luks"},
		"container":           {image: of("luks", "os_encrypt_key_id", keyID), backing: "luks"},
		"the reserved name":   {image: of("raw", "hw_ephemeral_encryption_secret_uuid", keyID), backing: "luks"},
		"luksv2":              {image: of("raw", "os_encrypt_key_id", keyID, "os_encrypt_format", "luksv2"), format: "luksv2"},
		"plain, as a format":  {image: of("raw", "os_encrypt_key_id", keyID, "os_encrypt_format", "plain"), format: "plain"},
		"encrypted vmdk":      {image: of("vmdk", "os_encrypt_key_id", keyID)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, !c.plain, c.image.IsEncrypted())
			enc, err := c.image.Encryption()
			require.NoError(t, err)
			if c.plain {
				require.Nil(t, enc)
			} else {
				require.Equal(t, keyID, enc.Secret.String())
				require.Equal(t, c.format, enc.Format)
			}
			backing, err := c.image.BackingFormat()
			require.Equal(t, c.backing, backing)
			require.Equal(t, c.backing == "", compute.Is(err, compute.Invalid), "%v", err)
		})
	}
	for _, bad := range []compute.Image{of("raw", "os_encrypt_key_id", "none"), of("raw", "os_encrypt_key_id", keyID, "os_encrypt_format", "rot13")} {
		_, err := bad.Encryption()
		require.True(t, compute.Is(err, compute.Invalid), "%v", err)
	}
}

func of(format string, pairs ...string) compute.Image {
	img := image(pairs...)
	img.DiskFormat = format
	return img
}

// What a LUKS container holds is smaller than its file; an encrypted qcow2's own
// size says nothing of what a guest sees.
func TestSizeOfAnEncryptedImage(t *testing.T) {
	t.Parallel()
	flavor := compute.Flavor{RootGB: 1}
	for name, c := range map[string]struct {
		image compute.Image
		mib   int64  // of a root disk of the image's size
		says  string // why it does not fit a flavor of 1 GiB
	}{
		"container":         {sized("raw", 1<<30+2<<20, "1073741824"), 1024, ""},
		"one of few words":  {sized("raw", 1<<30+2<<20, ""), 1026, "too small"},
		"qcow2":             {sized("qcow2", 5<<30, "1073741824"), 1024, ""},
		"too large":         {sized("qcow2", 1<<20, "1073741825"), 1025, "too small"},
		"more than it has":  {sized("luks", 1<<20, "1073741824"), 0, "os_decrypt_size"},
		"no size":           {sized("qcow2", 1<<20, "much"), 0, "os_decrypt_size"},
		"less than nothing": {sized("qcow2", 1<<20, "-1"), 0, "os_decrypt_size"},
		"a sign":            {sized("qcow2", 1<<20, "+1073741824"), 0, "os_decrypt_size"}, // the quota counts it as nothing
		"many digits":       {sized("qcow2", 1<<20, "0000000001073741824"), 0, "os_decrypt_size"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := compute.CheckImageFits(flavor, c.image)
			if c.says == "" {
				require.NoError(t, err)
			} else {
				require.True(t, compute.Is(err, compute.Invalid))
				require.ErrorContains(t, err, c.says)
			}
			if c.mib > 0 {
				require.Equal(t, c.mib, compute.PlanDisks(operation, compute.Flavor{}, c.image, compute.Encryption{})[0].SizeMB)
			}
		})
	}
}

func sized(format string, bytes int64, inside string) compute.Image {
	img := of(format, "os_encrypt_key_id", keyID, "os_decrypt_size", inside)
	img.SizeBytes = bytes
	return img
}

// EE-12: a copy of an encrypted image is one project's; a plain one everybody's.
func TestCacheName(t *testing.T) {
	t.Parallel()
	plain := of("qcow2")
	plain.ID, plain.SHA256 = compute.ImageID{UUID: uuid.MustParse(keyID)}, strings.Repeat("ab", 32)
	name, err := plain.CacheName("p1")
	require.NoError(t, err)
	require.Equal(t, keyID+"-abababababababab.qcow2", name)

	secured := plain
	secured.Properties = map[string]string{"os_encrypt_key_id": keyID}
	mine, err := secured.CacheUse("p1", server, compute.Disk{Role: compute.RootDisk})
	require.NoError(t, err)
	require.Equal(t, "p1/"+keyID+"-abababababababab.qcow2/"+server.String()+".disk", mine)
	other, err := secured.CacheName("p2")
	require.NoError(t, err)
	require.NotContains(t, mine, other)
	for _, project := range []string{"", "..", "a/b", strings.Repeat("a", 65)} {
		_, err := secured.CacheName(project)
		require.True(t, compute.Is(err, compute.Invalid), project)
	}
	secured.SHA256 = ""
	_, err = secured.CacheName("p1")
	require.True(t, compute.Is(err, compute.Invalid))
}
