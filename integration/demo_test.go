package integration_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The demo proves what it promises, of a share, too (SH-18), and does so again when it is run again.
func TestDemoTwice(t *testing.T) {
	backends(t, local) // it is about strongroom dev
	seat(t, 1)
	products, err := made()
	require.NoError(t, err)
	dir, err := os.MkdirTemp("", "srdemo")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o711))
	state, base := filepath.Join(dir, "s"), freeRow()
	for range 2 {
		demo := exec.Command(products.binary, "demo", "--once", "--share", "--own-libvirt", "--state", state,
			"--port-base", fmt.Sprint(base), "--clouds-yaml", filepath.Join(dir, "clouds.yaml"))
		out, err := demo.CombinedOutput()
		require.NoError(t, err, "%s", out)
		for _, proof := range []string{
			"status    ACTIVE", "disk.eph0  qcow2  1024 MiB  encrypted  luks  aes-256  xts", "disk.swap  qcow2  64 MiB  encrypted",
			"secrets   0 known to libvirt", "guest     tpm version=2.0 interface=crb", "over TCP it says: hello from 10.", "server delete --wait demo-",
			`written   by the guest, read on the host: "from demo-`,
		} {
			require.Contains(t, string(out), proof)
		}
		requireNoProcessIn(t, state)
	}
}
