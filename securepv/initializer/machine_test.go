package initializer_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/deploy/guest/vm"
	"strongroom/securepv/initializer"
)

// machineWithVolumes has a kernel's device mapper, and a disk.
var machineWithVolumes = vm.Machine{
	Modules:  []string{"dm-crypt", "dm-integrity", "xts", "aesni-intel", "algif_skcipher", "algif_hash", "algif_aead", "authenc", "hmac", "sha256_generic", "ext4", "loop"},
	Programs: []string{"cryptsetup", "mkfs.ext4", "resize2fs", "losetup", "dmsetup", "sha256sum"},
	DiskMiB:  80,
}

// PV-11: the container's program with a kernel's device mapper. The first start formats two volumes, the
// second reads what was written; a start after a crash uses on what is open; a format that is cut is begun
// again; a volume grows; its key changes while it is open; and neither read errors nor wrong keys, nor a
// header that is somebody else's, cut off, tampered with or zeroed, change a byte.
func TestPV11InAMachine(t *testing.T) {
	t.Parallel()
	if !vm.Inside() {
		machineWithVolumes.Run(t)
		return
	}
	m := &machine{t: t, dir: t.TempDir()}
	m.order = order{
		Secret: m.file("seed", seed), Folder: filepath.Join(m.dir, "contrast"), Done: filepath.Join(m.dir, "done"), KDF: initializer.PBKDF2,
		Volumes: []initializer.Volume{{Device: "/dev/vda", Mount: "/state"}, {Device: m.loop("second", 80<<20), Mount: "/state1"}},
	}

	m.starts()
	m.writes("/state/data", "first")
	m.writes("/state1/data", "second")
	m.stops()
	require.NotContains(t, m.said.String(), "interrupted")

	m.starts()
	require.NotContains(t, m.said.String(), "formatted")
	require.Equal(t, "first", m.reads("/state/data"))
	require.Equal(t, "second", m.reads("/state1/data"))

	// The workload goes on over a crash, and a container that is started again has another /dev.
	f, err := os.OpenFile("/state/data", os.O_APPEND|os.O_RDWR, 0)
	require.NoError(t, err)
	require.NoError(t, m.process.Process.Kill())
	_ = m.process.Wait()
	nodes, err := filepath.Glob("/dev/mapper/strongroom*")
	require.NoError(t, err)
	require.NotEmpty(t, nodes)
	for _, n := range nodes {
		require.NoError(t, os.Remove(n))
	}
	m.starts()
	require.Equal(t, 2, strings.Count(m.said.String(), "is open already"))
	_, err = f.WriteString(", and more")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.Equal(t, "first, and more", m.reads("/state/data"))

	// The key changes while the volume is open.
	rotation := m.order
	rotation.New = m.file("new", other)
	c := rotation.process(t)
	require.NoError(t, c.Run())
	m.stops()
	both := m.order.Volumes
	m.order.Volumes = both[:1]
	require.Contains(t, m.fails(), "does not open this volume")
	m.order.Secret = rotation.New
	m.starts()
	require.Equal(t, "first, and more", m.reads("/state/data"))
	m.stops()

	// A volume grows. A crash in the middle of opening it left a part of it open.
	m.order.Volumes, m.order.Secret = both[1:], m.file("seed", seed)
	m.starts()
	before := room(t, "/state1")
	require.NoError(t, m.process.Process.Kill())
	_ = m.process.Wait()
	require.NoError(t, syscall.Unmount("/state1", 0))
	name, err := initializer.DeviceMapper{}.Name(both[1].Device)
	require.NoError(t, err)
	m.run("dmsetup", "remove", name)
	m.starts()
	m.stops()
	require.NoError(t, os.Truncate(filepath.Join(m.dir, "second"), 120<<20))
	m.run("losetup", "--set-capacity", both[1].Device)
	m.starts()
	require.Greater(t, room(t, "/state1"), before+(30<<20))
	require.Equal(t, "second", m.reads("/state1/data"))
	f, err = os.Create("/state1/large") // more than there was room for before, of which the end is written
	require.NoError(t, err)
	require.NoError(t, syscall.Fallocate(int(f.Fd()), 0, 0, before+(4<<20)))
	end := random(1 << 20)
	_, err = f.WriteAt(end, before+(3<<20))
	require.NoError(t, err)
	require.NoError(t, f.Close())
	m.stops()
	m.starts()
	require.True(t, strings.HasSuffix(m.reads("/state1/large"), string(end)))
	m.stops()

	// A format is cut where it has the kernel's own things open, and what it did is of no value.
	m.order.Volumes = []initializer.Volume{{Device: m.loop("third", 80<<20), Mount: "/state2"}}
	for _, step := range []int{3, 5} { // opened anew, file system
		m.order.Kill = step
		c := m.order.process(t)
		out, err := c.Output()
		require.Error(t, err)
		t.Logf("%s", out)
		mapped, err := filepath.Glob("/sys/block/dm-*")
		require.NoError(t, err)
		require.Len(t, mapped, 2, "it was open")
	}
	m.order.Kill = 0
	m.starts()
	require.Equal(t, 1, strings.Count(m.said.String(), "it begins again"))
	m.writes("/state2/data", "third")
	m.stops()
	m.starts()
	require.Equal(t, "third", m.reads("/state2/data"))
	m.stops()

	m.refuses(both[0].Device, "first, and more", rotation.New, m.file("seed", seed))

	// What cannot be read is neither formatted nor written to.
	backing := m.loop("fourth", 80<<20)
	m.run("dmsetup", "create", "bad", "--table", fmt.Sprintf("0 100000 linear %s 0\n100000 63840 error", backing))
	m.order.Volumes = []initializer.Volume{{Device: "/dev/mapper/bad", Mount: "/state3"}}
	require.Contains(t, m.fails(), "cannot be read")
	m.run("dmsetup", "remove", "bad")
	require.True(t, isZero(t, filepath.Join(m.dir, "fourth")), "it was written to")
}

// refuses has the program find, on the device of a volume, what is not that volume whole: it says so, opens nothing, and not a byte of
// it is another. The volume as it was then opens, and has its data.
func (m *machine) refuses(device, data, right, wrong string) {
	m.t.Helper()
	whole := make([]byte, headBytes) // only what is before the data is changed
	f, err := os.Open(device)
	require.NoError(m.t, err)
	_, err = io.ReadFull(f, whole)
	require.NoError(m.t, errors.Join(err, f.Close()))
	write := func(device string, begin []byte) {
		f, err := os.OpenFile(device, os.O_WRONLY, 0)
		require.NoError(m.t, err)
		_, err = f.Write(begin)
		require.NoError(m.t, errors.Join(err, f.Sync(), f.Close()))
	}
	text, _, _ := bytes.Cut(whole[4096:copyBytes], []byte{0})
	var metadata object
	require.NoError(m.t, json.Unmarshal(text, &metadata))
	segment := func(m object) object { return m["segments"].(object)["0"].(object) }
	refuses := func(device, says string) {
		before := m.run("sha256sum", device)
		m.order.Volumes = []initializer.Volume{{Device: device, Mount: "/state4"}}
		require.Contains(m.t, m.fails(), says)
		require.Equal(m.t, before, m.run("sha256sum", device), "%s: it was written to", says)
	}

	m.order.Secret = wrong
	refuses(device, "does not open this volume")
	m.order.Secret = right
	m.run("cryptsetup", "luksFormat", "--batch-mode", "--type", "luks2", "--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000", "--key-file", right, device)
	refuses(device, "it is none that the initializer makes")
	write(device, changed(m.t, whole, metadata, func(m object) { segment(m)["encryption"] = "cipher_null-ecb" }))
	refuses(device, "encrypted with aes-xts-plain64")
	write(device, make([]byte, headBytes))
	refuses(device, "neither new nor an encrypted volume of ours")
	cut := m.loop("cut", 100<<10)
	write(cut, whole[:100<<10])
	refuses(cut, "it ends after 102400 bytes")
	m.order.NeverFormat = true
	refuses(m.loop("zeroes", 80<<20), "not to be formatted")
	m.order.NeverFormat = false
	mapped, err := filepath.Glob("/sys/block/dm-*")
	require.NoError(m.t, err)
	require.Empty(m.t, mapped)

	write(device, whole)
	m.order.Volumes = []initializer.Volume{{Device: device, Mount: "/state"}}
	m.starts()
	require.Equal(m.t, data, m.reads("/state/data"))
	m.stops()
}

// machine runs the program in the virtual machine.
type machine struct {
	t       *testing.T
	dir     string
	order   order
	process *exec.Cmd
	said    bytes.Buffer
}

func (m *machine) file(name, text string) string {
	m.t.Helper()
	name = filepath.Join(m.dir, name)
	require.NoError(m.t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

func (m *machine) run(name string, args ...string) string {
	m.t.Helper()
	c := exec.Command(name, args...)
	c.Env = append(os.Environ(), "DM_DISABLE_UDEV=1")
	out, err := c.CombinedOutput()
	require.NoError(m.t, err, string(out))
	return strings.TrimSpace(string(out))
}

// loop gives a block device.
func (m *machine) loop(name string, size int64) string {
	m.t.Helper()
	name = m.file(name, "")
	require.NoError(m.t, os.Truncate(name, size))
	return m.run("losetup", "--find", "--show", name)
}

// starts starts the program and waits until its volumes are open.
func (m *machine) starts() {
	m.t.Helper()
	m.said.Reset()
	m.process = m.order.process(m.t)
	m.process.Stderr = io.MultiWriter(&m.said, m.t.Output())
	_ = os.Remove(m.order.Done)
	require.NoError(m.t, m.process.Start())
	require.Eventually(m.t, func() bool { _, err := os.Stat(m.order.Done); return err == nil }, 5*time.Minute, 100*time.Millisecond)
}

// stops stops it as the kubelet does, and sees that nothing is left open.
func (m *machine) stops() {
	m.t.Helper()
	require.NoError(m.t, m.process.Process.Signal(syscall.SIGTERM))
	require.NoError(m.t, m.process.Wait())
	mapped, err := filepath.Glob("/sys/block/dm-*")
	require.NoError(m.t, err)
	require.Empty(m.t, mapped)
	mounts, err := os.ReadFile("/proc/self/mounts")
	require.NoError(m.t, err)
	require.NotContains(m.t, string(mounts), "/state")
	require.NoFileExists(m.t, m.order.Done)
}

// fails runs it, which must end by itself, with nothing open, and gives what it says.
func (m *machine) fails() string {
	m.t.Helper()
	c := m.order.process(m.t)
	var said bytes.Buffer
	c.Stderr = io.MultiWriter(&said, m.t.Output())
	require.Error(m.t, c.Run())
	require.NoFileExists(m.t, m.order.Done)
	return said.String()
}

func (m *machine) writes(name, text string) {
	m.t.Helper()
	require.NoError(m.t, os.WriteFile(name, []byte(text), 0o600))
}

func (m *machine) reads(name string) string {
	m.t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(m.t, err)
	return string(text)
}

func room(t *testing.T, at string) int64 {
	t.Helper()
	var s syscall.Statfs_t
	require.NoError(t, syscall.Statfs(at, &s))
	return int64(s.Blocks) * s.Bsize
}

func isZero(t *testing.T, name string) bool {
	t.Helper()
	all, err := os.ReadFile(name)
	require.NoError(t, err)
	return len(bytes.Trim(all, "\x00")) == 0
}
