package vm_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/deploy/guest/vm"
)

func TestMain(m *testing.M) { os.Exit(vm.Main(m)) }

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
