package compute_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

// EE-26: a rescue disk is encrypted if its image is, with the image's secret.
func TestPlanRescue(t *testing.T) {
	t.Parallel()
	key := compute.SecretID{UUID: uuid.New()}
	image := compute.ImageID{UUID: uuid.New()}
	for name, c := range map[string]struct {
		image  compute.Image
		sizeMB int64
		format compute.DiskFormat // none: not encrypted
		wrong  string
	}{
		"plain":           {compute.Image{DiskFormat: "qcow2", SizeBytes: 5, VirtualBytes: 3<<20 + 1}, 4, "", ""},
		"of unknown size": {compute.Image{DiskFormat: "qcow2", SizeBytes: 5 << 20}, 0, "", ""},
		"raw":             {compute.Image{DiskFormat: "raw", SizeBytes: 5 << 20}, 5, "", ""},
		"encrypted":       {of("qcow2", "os_encrypt_key_id", key.String(), "os_encrypt_format", "LUKSv1"), 0, "luks", ""},
		"of known size":   {of("qcow2", "os_encrypt_key_id", key.String(), "os_decrypt_size", "5242881"), 6, "luks", ""},
		"a container":     {of("luks", "os_encrypt_key_id", key.String()), 0, "luks", ""},
		"LUKS 2":          {of("qcow2", "os_encrypt_key_id", key.String(), "os_encrypt_format", "luks2"), 0, "", "is encrypted as luksv2"},
		"no secret":       {of("qcow2", "os_encrypt_key_id", "x"), 0, "", "invalid os_encrypt_key_id property: not a UUID."},
		"no size":         {of("qcow2", "os_encrypt_key_id", key.String(), "os_decrypt_size", "x"), 0, "", "invalid os_decrypt_size"},
		"vmdk":            {of("vmdk"), 0, "", "has the disk format 'vmdk'"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.image.ID = image
			d, err := compute.PlanRescue("req-1", compute.RescueArguments{Image: c.image})
			if c.wrong != "" {
				require.ErrorContains(t, err, c.wrong)
				require.Equal(t, compute.Invalid, compute.KindOf(err))
				return
			}
			require.NoError(t, err)
			again, _ := compute.PlanRescue("req-1", compute.RescueArguments{Image: c.image})
			require.Equal(t, again, d)
			require.Equal(t, "disk.rescue."+d.ID.String()[:8], d.Name())
			other, _ := compute.PlanRescue("req-2", compute.RescueArguments{Image: c.image})
			require.NotEqual(t, other.Name(), d.Name(), "what another rescue left is not taken for it")
			require.Equal(t, c.sizeMB, d.SizeMB)
			require.Equal(t, image, *d.Image)
			require.Equal(t, c.image, *d.Source)
			require.Equal(t, c.format != "", d.Encrypted)
			require.Equal(t, c.format, d.Format)
			if d.Encrypted {
				require.Equal(t, []compute.SecretID{key, key}, []compute.SecretID{*d.Secret, *d.BackingSecret})
			} else {
				require.Nil(t, d.Secret)
				require.Nil(t, d.BackingSecret)
			}
		})
	}
}

// A rescue disk comes first, and the server's own disks keep their order after it.
func TestAttached(t *testing.T) {
	t.Parallel()
	image := compute.ImageID{UUID: uuid.New()}
	s := compute.Server{Image: compute.Image{ID: image, Name: "own"}, Disks: []compute.Disk{
		{Role: compute.RootDisk, DeviceName: "/dev/vda", Image: &image},
		{Role: compute.EphemeralDisk, DeviceName: "/dev/vdb", BootIndex: -1},
		{Role: compute.SwapDisk, DeviceName: "/dev/vdc", BootIndex: -1},
	}}
	require.Equal(t, s.Disks, s.Attached())
	require.Equal(t, compute.VMActive, s.RunningState())
	require.Equal(t, &s.Image, s.SourceOf(s.Disks[0]))
	require.Nil(t, s.SourceOf(s.Disks[1]))

	d, err := compute.PlanRescue("req-1", compute.RescueArguments{Image: compute.Image{Name: "rescue", DiskFormat: "qcow2"}})
	require.NoError(t, err)
	r := s.RescuedWith(d)
	require.Equal(t, compute.VMRescued, r.RunningState())
	require.Equal(t, "rescue", r.SourceOf(r.Attached()[0]).Name)
	type place struct {
		role compute.DiskRole
		name string
		boot int
	}
	var places []place
	for _, a := range r.Attached() {
		places = append(places, place{a.Role, a.DeviceName, a.BootIndex})
	}
	require.Equal(t, []place{{"rescue", "/dev/vda", 0}, {"root", "/dev/vdb", -1}, {"ephemeral", "/dev/vdc", -1}, {"swap", "/dev/vdd", -1}}, places)
	root, _ := r.RootDisk()
	require.Equal(t, "/dev/vdb", root.DeviceName)
	require.Equal(t, s, r.Unrescued())
	_, err = r.RebuiltAs("req-2", compute.RebuildArguments{Image: s.Image}, compute.FormatLUKS)
	require.Equal(t, compute.Conflict, compute.KindOf(err), "%v", err)
	_, err = r.DisksToRotate(nil)
	require.ErrorContains(t, err, "is on its rescue disk")
	require.Len(t, s.Disks, 3, "the plan that it was made of is as it was")
}

// The image's key is read with the credential of whoever asks; the server's own
// are read as its flavor says.
func TestKeyOfARescueDisk(t *testing.T) {
	t.Parallel()
	s := compute.Server{
		ID: server, ProjectID: "owner's", UserID: "owner", Disks: []compute.Disk{{Role: compute.RescueDisk, Encrypted: true}, {Role: compute.RootDisk}},
		Flavor: compute.Flavor{ExtraSpecs: map[string]string{"hw:ephemeral_encryption_secret_security": "host"}},
	}
	ring := s.Keyring(asker)
	require.Equal(t, asker, ring.OfDisk(s.Disks[0]))
	require.Equal(t, s.Delegated(), ring.OfDisk(s.Disks[1]))
	require.False(t, s.Delegates(), "no disk of its own is encrypted")
}

// What an unrescue takes away is the rescue disk and its use of an image, and
// nothing else.
func TestRescueDiskIsOnlyOfTheRescued(t *testing.T) {
	t.Parallel()
	host := compute.HostID{UUID: uuid.New()}
	s := compute.Server{ID: server, ProjectID: "p", Disks: []compute.Disk{{Role: compute.RootDisk}}}
	img := of("qcow2", "os_encrypt_key_id", keyID, "os_decrypt_size", "1073741824")
	img.ID, img.SHA256 = compute.ImageID{UUID: uuid.MustParse(keyID)}, strings.Repeat("ab", 32)
	disk, err := compute.PlanRescue(compute.NewOperationID(), compute.RescueArguments{Image: img})
	require.NoError(t, err)
	use, err := disk.Source.CacheUse("p", server, disk)
	require.NoError(t, err)
	own := []compute.Thing{
		{Kind: compute.ThingDiskFile, Place: host.String(), Name: server.String() + "/" + disk.Name()},
		{Kind: compute.ThingCachedImage, Place: host.String(), Name: use},
	}
	others := []compute.Thing{
		{Kind: compute.ThingDiskFile, Place: host.String(), Name: server.String() + "/disk"},
		{Kind: compute.ThingCachedImage, Place: host.String(), Name: "p/copy/" + server.String() + ".disk"},
		{Kind: compute.ThingKeySecret, Place: compute.PlaceKeyManager, Name: server.String() + "/" + disk.Name()},
	}
	require.Equal(t, own, onlyOf(s.RescuedWith(disk), host, s, host, append(others, own...)))
}

// H3: a rescue disk is no larger than the operation's arguments say.
func TestH3RescueDisksHaveALimit(t *testing.T) {
	t.Parallel()
	require.Equal(t, 10, compute.MaxRescueGB(compute.Flavor{RootGB: 1}, 10))
	require.Equal(t, 20, compute.MaxRescueGB(compute.Flavor{RootGB: 20}, 10))
	fits := compute.Image{DiskFormat: "qcow2", VirtualBytes: 10 << 30}
	d, err := compute.PlanRescue("req-1", compute.RescueArguments{Image: fits, MaxDiskGB: 10})
	require.NoError(t, err)
	require.EqualValues(t, 10<<10, d.SizeMB)
	for _, in := range []compute.RescueArguments{
		{Image: compute.Image{DiskFormat: "qcow2", VirtualBytes: 10<<30 + 1}, MaxDiskGB: 10},
		{Image: compute.Image{DiskFormat: "qcow2", VirtualBytes: 1 << 62}},
		{Image: compute.Image{DiskFormat: "qcow2", MinDiskGB: 1 << 40}},
	} {
		_, err := compute.PlanRescue("req-1", in)
		require.Equal(t, compute.Invalid, compute.KindOf(err), "%+v", in)
	}
	for max, most := range map[int]int64{7: 7 << 10, 0: compute.DefaultMaxImageDiskGB << 10} {
		d, err = compute.PlanRescue("req-1", compute.RescueArguments{Image: compute.Image{DiskFormat: "qcow2"}, MaxDiskGB: max})
		require.NoError(t, err)
		require.Zero(t, d.SizeMB)
		require.Equal(t, most, d.MaxMB, "its host sees")
	}
}
