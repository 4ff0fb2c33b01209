package compute_test

import (
	"math"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"strongroom/compute"
)

const operation = compute.OperationID("req-0c8dfd8a-24a9-4f4d-9d5f-0cf8f1d0f5aa")

func TestPlanDisks(t *testing.T) {
	t.Parallel()
	f := compute.Flavor{RootGB: 2, EphemeralGB: 1, SwapMB: 64}
	img := compute.Image{ID: compute.ImageID{UUID: uuid.New()}}
	disks := compute.PlanDisks(operation, f, img, compute.Encryption{Enabled: true, Format: compute.FormatLUKS})
	require.Len(t, disks, 3)

	root, ephemeral, swap := disks[0], disks[1], disks[2]
	require.Equal(t, compute.Disk{
		ID: compute.DiskID{UUID: operation.Derive("disk/root")}, Role: compute.RootDisk, DeviceName: "/dev/vda", Bus: "virtio",
		SizeMB: 2048, BootIndex: 0, Image: &img.ID, Encrypted: true, Format: compute.FormatLUKS,
	}, root)
	require.Equal(t, compute.Disk{
		ID: compute.DiskID{UUID: operation.Derive("disk/ephemeral0")}, Role: compute.EphemeralDisk, DeviceName: "/dev/vdb", Bus: "virtio",
		SizeMB: 1024, BootIndex: -1, GuestFormat: "ext4", Encrypted: true, Format: compute.FormatLUKS,
	}, ephemeral)
	require.Equal(t, compute.Disk{
		ID: compute.DiskID{UUID: operation.Derive("disk/swap")}, Role: compute.SwapDisk, DeviceName: "/dev/vdc", Bus: "virtio",
		SizeMB: 64, BootIndex: -1, GuestFormat: "swap", Encrypted: true, Format: compute.FormatLUKS,
	}, swap)
}

func TestPlanDisksRootOfTheImagesSize(t *testing.T) {
	t.Parallel()
	disks := compute.PlanDisks(operation, compute.Flavor{}, compute.Image{SizeBytes: 3 << 20, VirtualBytes: 5<<20 + 1}, compute.Encryption{})
	require.Len(t, disks, 1)
	require.EqualValues(t, 6, disks[0].SizeMB)
	require.False(t, disks[0].Encrypted)
}

// EE-03, EE-04: what was asked for, else what the image has; else it is left to the host.
func TestPlanDisksFormat(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		flavor compute.Flavor
		image  compute.Image
		want   compute.DiskFormat
	}{
		"left open":   {flavor("hw:"+enc, "true"), image(), compute.FormatNone},
		"the image's": {flavor(), image("os_encrypt_key_id", keyID, "os_encrypt_format", "luks"), compute.FormatLUKS},
		"asked for":   {flavor("hw:"+encFormat, "plain"), image("os_encrypt_key_id", keyID, "os_encrypt_format", "luks"), compute.FormatPlain},
		"plain text":  {flavor("hw:"+encFormat, "plain"), image(), compute.FormatNone},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			enc, err := compute.EncryptionOf(c.flavor, c.image)
			require.NoError(t, err)
			for _, d := range compute.PlanDisks(operation, c.flavor, c.image, enc) {
				require.Equal(t, c.want, d.Format)
				require.Equal(t, enc.Enabled, d.Encrypted)
				require.Equal(t, enc.Enabled && c.want == compute.FormatNone, d.IsOpen())
			}
		})
	}
}

// EE-11: a plan never names the image's own secret: what opens the file under a root
// disk is a copy that is still to be made.
func TestPlanDisksEncryptedImage(t *testing.T) {
	t.Parallel()
	source := &compute.SecretID{UUID: uuid.New()}
	disks := compute.PlanDisks(operation, compute.Flavor{RootGB: 1, SwapMB: 1}, compute.Image{}, compute.Encryption{Enabled: true, SourceSecret: source})
	for _, d := range disks {
		require.Nil(t, d.BackingSecret)
		require.Nil(t, d.Secret)
		require.NotEqual(t, compute.DiskSecret(server, operation, d), compute.BackingSecret(server, operation, d))
	}
	owner, op, ours := compute.SecretOwner(compute.BackingSecret(server, operation, disks[0]).Name)
	require.True(t, ours)
	require.Equal(t, server, owner)
	require.Equal(t, operation, op)
}

// EE-06: every local disk is encrypted or none; a plan made twice is the same;
// nothing in it collides.
func TestPlanDisksProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := compute.Flavor{
			RootGB:      rapid.IntRange(0, 100).Draw(t, "root"),
			EphemeralGB: rapid.IntRange(0, 2).Draw(t, "ephemeral"),
			SwapMB:      rapid.IntRange(0, 2).Draw(t, "swap"),
		}
		enc := compute.Encryption{Enabled: rapid.Bool().Draw(t, "encrypted"), Format: compute.FormatLUKS}
		img := compute.Image{SizeBytes: 1}
		disks := compute.PlanDisks(operation, f, img, enc)
		require.Equal(t, disks, compute.PlanDisks(operation, f, img, enc))
		ids, names, secrets := map[compute.DiskID]bool{}, map[string]bool{}, map[compute.SecretID]bool{}
		for i, d := range disks {
			require.Equal(t, enc.Enabled, d.Encrypted)
			require.Equal(t, "/dev/vd"+string(rune('a'+i)), d.DeviceName)
			require.Positive(t, d.SizeMB)
			ids[d.ID], names[d.Name()], secrets[compute.DiskSecret(server, operation, d).ID] = true, true, true
		}
		require.Len(t, ids, len(disks))
		require.Len(t, names, len(disks))
		require.Len(t, secrets, len(disks))
		other := compute.PlanDisks(operation+"b", f, img, enc)
		require.False(t, ids[other[0].ID], "another operation's disks are others")
	})
}

func TestCheckImageFits(t *testing.T) {
	t.Parallel()
	small := compute.Flavor{MemoryMB: 128, RootGB: 1}
	for name, c := range map[string]struct {
		image compute.Image
		text  string
	}{
		"fits":            {compute.Image{SizeBytes: 1 << 30, MinDiskGB: 1, MinRAMMB: 128}, ""},
		"memory":          {compute.Image{MinRAMMB: 129}, "Flavor's memory is too small for requested image."},
		"size":            {compute.Image{SizeBytes: 1<<30 + 1}, "Flavor's disk is too small for requested image. Flavor disk is 1073741824 bytes, image is 1073741825 bytes."},
		"virtual size":    {compute.Image{VirtualBytes: 2 << 30}, "Flavor's disk is too small for requested image. Flavor disk is 1073741824 bytes, image is 2147483648 bytes."},
		"min_disk":        {compute.Image{MinDiskGB: 2}, "Flavor's disk is smaller than the minimum size specified in image metadata. Flavor disk is 1073741824 bytes, minimum size is 2147483648 bytes."},
		"min_ram is next": {compute.Image{MinRAMMB: 128}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := compute.CheckImageFits(small, c.image)
			if c.text == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, c.text)
			require.Equal(t, compute.Invalid, compute.KindOf(err))
		})
	}
	require.NoError(t, compute.CheckImageFits(compute.Flavor{MemoryMB: 1}, compute.Image{VirtualBytes: 1 << 40, MinDiskGB: 900}), "no root size takes any image")
}

// H3: where the flavor does not say how large the root disk is, the image may not say
// anything: there is a limit.
func TestH3ImagesSizeDisksUpToALimit(t *testing.T) {
	t.Parallel()
	small := "Flavor's disk is too small for requested image. Flavor disk is 10737418240 bytes, image is "
	for name, c := range map[string]struct {
		rootGB int
		image  compute.Image
		text   string
	}{
		"as large":           {0, compute.Image{VirtualBytes: 10 << 30, MinDiskGB: 10}, ""},
		"larger":             {0, compute.Image{VirtualBytes: 10<<30 + 1}, small + "10737418241 bytes."},
		"8 EiB":              {0, compute.Image{VirtualBytes: math.MaxInt64}, small + "9223372036854775807 bytes."},
		"encrypted":          {0, of("qcow2", "os_encrypt_key_id", uuid.NewString(), "os_decrypt_size", "922337203685477580"), small + "922337203685477580 bytes."},
		"min_disk":           {0, compute.Image{MinDiskGB: 11}, "Flavor's disk is smaller than the minimum size specified in image metadata."},
		"min_disk to burst":  {0, compute.Image{MinDiskGB: math.MaxInt}, "Flavor's disk is smaller than the minimum size specified in image metadata."},
		"the flavor says it": {1, compute.Image{VirtualBytes: 11 << 30}, ""},
	} {
		err := compute.CheckImageSize(compute.Flavor{RootGB: c.rootGB}, c.image, 10)
		if c.text == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorContains(t, err, c.text, name)
		require.Equal(t, compute.Invalid, compute.KindOf(err), name)
	}
}

// H3: what such a disk takes counts on its host.
func TestH3ImageSizedDisksAreClaimed(t *testing.T) {
	t.Parallel()
	img := compute.Image{VirtualBytes: 20<<30 + 1}
	for _, c := range []struct{ rootGB, want int }{{0, 24}, {30, 33}} {
		s := compute.Server{Flavor: compute.Flavor{RootGB: c.rootGB, EphemeralGB: 2, SwapMB: 1}, Image: img}
		s.Disks = compute.PlanDisks("req-1", s.Flavor, img, compute.Encryption{})
		require.Equal(t, c.want, s.Resources().DiskGB)
		require.Equal(t, s.Resources(), compute.RequestOf(s).Resources)
	}
}
