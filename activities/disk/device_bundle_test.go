package disk_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/activities/disk"
	"strongroom/activities/secret"
	"strongroom/compute"
	"strongroom/deploy/guest/vm"
	"strongroom/integration/seed"
)

func TestMain(m *testing.M) {
	seed.Part(3, TestDevices, TestDisksInAPool, TestExport, TestCreateOnAnEncryptedImage, TestEE48AdoptVolumes, TestEE48LegacyVolumes)
	os.Exit(vm.Main(m))
}

const volumeGroup = "cloud-disks"

// lvmConf lets LVM do without udev, which the machine has not.
const lvmConf = `
devices { obtain_device_list_from_udev = 0 external_device_info_source = "none" use_devicesfile = 0 hints = "none" }
activation { udev_sync = 0 udev_rules = 0 monitoring = 0 }
backup { backup = 0 archive = 0 }
`

// inMachine runs the test in a virtual machine with a stock kernel: the one that the
// tests run on may have no device mapper, or may not let them use it. There it gives a
// host with a volume group.
func inMachine(t *testing.T) *testBundle {
	t.Helper()
	if !vm.Inside() {
		vm.Machine{
			Modules:  []string{"dm-crypt", "xts", "aesni-intel", "algif_skcipher", "algif_hash", "ext4", "essiv", "sha256_generic", "authenc"},
			Programs: []string{"lvm", "cryptsetup", "dmsetup", "qemu-img", "setpriv", "prlimit", "blkid", "mkfs.ext4", "mkswap"},
			Files:    map[string]string{"/etc/lvm/lvm.conf": lvmConf},
		}.Run(t)
		return nil
	}
	run(t, "lvm", "pvcreate", "--quiet", "/dev/vda")
	run(t, "lvm", "vgcreate", "--quiet", volumeGroup, "/dev/vda")
	b := setup(t)
	b.VolumeGroup = volumeGroup
	return b
}

// run runs a program, with what it shall read on its standard input.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	return runWith(t, "", name, args...)
}

func runWith(t *testing.T, input, name string, args ...string) string {
	t.Helper()
	c := disk.Command{Name: name, Args: args}
	if input != "" {
		c.Stdin = secret.New([]byte(input))
	}
	out, err := disk.Exec{}.Run(t.Context(), c)
	require.NoError(t, err)
	return string(out)
}

// device is a server with one disk on a block device.
type device struct {
	*testBundle
	disk.CreateInput
	key string
}

// device plans a server with a disk of a format, of the size of a test's guest.
func (b *testBundle) device(t *testing.T, format compute.DiskFormat, image *compute.Image) *device {
	t.Helper()
	d := &device{testBundle: b, CreateInput: disk.CreateInput{Server: newServer(), Image: image}}
	d.Disk = compute.Disk{ID: newDisk(), Role: compute.EphemeralDisk, SizeMB: diskMiB, Encrypted: true, Format: format}
	if image != nil {
		d.Disk.Role = compute.RootDisk
	}
	d.Disk.Secret, d.key = b.secret(t)
	return d
}

func (d *device) server() compute.Server {
	return compute.Server{ID: d.Server, Disks: []compute.Disk{d.Disk, {Role: compute.SwapDisk, Encrypted: true, Format: compute.FormatLUKS}}}
}

// volume is the name of the disk's logical volume.
func (d *device) volume() string { return d.Server.String() + "_" + d.Disk.Name() }

func (d *device) open(t *testing.T) (path string) {
	t.Helper()
	paths, err := d.OpenDevices(t.Context(), compute.Credential{}, d.server())
	require.NoError(t, err)
	require.Len(t, paths, 1)
	return paths[d.Disk.ID]
}

// guest has a look at the open disk, or writes, as the guest would, and closes it.
func (d *device) guest(t *testing.T, do func(*testing.T, string)) {
	t.Helper()
	do(t, d.open(t))
	require.NoError(t, d.CloseDevices(t.Context(), d.Server))
}

// A guest's disk: the first 3 MiB are the image's, a part of them written over, and
// so is a part of the rest. What nobody wrote is noise.
var stretches = []struct {
	at, length int
	image      byte
	guest      byte
}{
	{0, 1 << 20, 0x11, 0x11}, {1 << 20, 70 << 10, 0x11, 0x22}, {1<<20 + 70<<10, 954 << 10, 0x11, 0x11}, {2 << 20, 1 << 20, 0, 0},
	{5 << 20, 1 << 20, 0x33, 0x33},
}

// imageData is what the image holds.
func imageData() []byte {
	data := make([]byte, 3<<20)
	for _, s := range stretches[:4] {
		copy(data[s.at:], bytes.Repeat([]byte{s.image}, s.length))
	}
	return data
}

func writeImage(t *testing.T, path string) {
	t.Helper()
	require.NoError(t, writeAt(path, 0, imageData()))
}

func writeGuest(t *testing.T, path string) {
	t.Helper()
	for _, s := range stretches {
		if s.guest != s.image || s.at >= 3<<20 {
			require.NoError(t, writeAt(path, s.at, bytes.Repeat([]byte{s.guest}, s.length)))
		}
	}
}

func readImage(t *testing.T, path string) {
	t.Helper()
	require.True(t, bytes.Equal(imageData(), readAt(t, path, 0, 3<<20)), "the image's content")
}

func readGuest(t *testing.T, path string) {
	t.Helper()
	for _, s := range stretches {
		got := readAt(t, path, s.at, s.length)
		require.True(t, bytes.Equal(bytes.Repeat([]byte{s.guest}, s.length), got), "what the guest wrote at %d", s.at)
	}
}

func writeAt(path string, at int, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, int64(at))
	return errors.Join(err, f.Sync(), f.Close())
}

func readAt(t *testing.T, path string, at, length int) []byte {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	data := make([]byte, length)
	_, err = f.ReadAt(data, int64(at))
	require.NoError(t, err)
	return data
}

// opened lists what is open on the host.
func opened(t *testing.T) (names []string) {
	t.Helper()
	nodes, err := filepath.Glob("/dev/mapper/*-dmcrypt")
	require.NoError(t, err)
	for _, n := range nodes {
		names = append(names, filepath.Base(n))
	}
	return names
}

// volumes lists all volumes of the host.
func volumes(t *testing.T) []string {
	t.Helper()
	return strings.Fields(run(t, "lvm", "lvs", "--noheadings", "--options", "lv_name", volumeGroup))
}

// gone deletes the disk and sees that nothing of it is left.
func (d *device) gone(t *testing.T) {
	t.Helper()
	require.NoError(t, d.Remove(t.Context(), ofFile(d.Server, d.Disk.Name())))
	require.Empty(t, opened(t))
	require.Empty(t, volumes(t))
	require.Empty(t, d.files(t))
}
