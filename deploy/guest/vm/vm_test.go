package vm_test

import (
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/deploy/guest/vm"
	"strongroom/integration/seed"
)

func TestMain(m *testing.M) {
	seed.Deep("adapters", TestMachineHasWhatTheTestAskedFor, TestWholeMachine)
	os.Exit(vm.Main(m))
}

func TestMachineHasWhatTheTestAskedFor(t *testing.T) {
	if !vm.Inside() {
		vm.Machine{Modules: []string{"dm-mod"}, Programs: []string{"dmsetup"}, Files: map[string]string{"/etc/deep/file": "content"}, DiskMiB: 3}.Run(t)
		return
	}
	text, err := os.ReadFile("/etc/deep/file")
	require.NoError(t, err)
	require.Equal(t, "content", string(text))
	sectors, err := os.ReadFile("/sys/block/vda/size")
	require.NoError(t, err)
	require.Equal(t, "6144\n", string(sectors))
	out, err := exec.Command("dmsetup", "version").CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "Driver version:")
}

// A whole machine has all that is installed outside and what the test outside wrote, of which it
// changes nothing; and it reaches what listens outside.
func TestWholeMachine(t *testing.T) {
	const note, changed = "/tmp/strongroom-vm-note", "/etc/strongroom-vm-changed"
	if vm.Inside() {
		text, err := os.ReadFile(note)
		require.NoError(t, err)
		port := string(text)
		require.NoError(t, os.WriteFile(changed, nil, 0o600))
		require.NoError(t, os.Remove(note))
		out, err := exec.Command("qemu-img", "--version").CombinedOutput()
		require.NoError(t, err, string(out))
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		require.NoError(t, err)
		said, err := io.ReadAll(conn)
		require.NoError(t, err)
		require.Equal(t, "hello", string(said))
		return
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err == nil {
			_, _ = io.WriteString(conn, "hello")
			_ = conn.Close()
		}
	}()
	port := l.Addr().(*net.TCPAddr).Port
	require.NoError(t, os.WriteFile(note, []byte(strconv.Itoa(port)), 0o600))
	defer os.Remove(note)
	vm.Machine{Whole: true, Outside: []int{port}, MemoryMiB: 1024, CPUs: 2}.Run(t)
	require.FileExists(t, note)
	require.NoFileExists(t, changed)
}
