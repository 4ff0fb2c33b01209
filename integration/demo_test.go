package integration_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/deploy/guest"
)

// The demo proves what it promises, of a share, too (SH-18), and does so again when it is run again; with a cloud image of Debian's
// packages who has the server's key logs in: cloud-init has found it at 169.254.169.254.
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
	demo := func(args ...string) string {
		out, err := exec.Command(products.binary, append([]string{"demo", "--once", "--own-libvirt", "--state", state,
			"--port-base", fmt.Sprint(base), "--clouds-yaml", filepath.Join(dir, "clouds.yaml")}, args...)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		requireNoProcessIn(t, state)
		return string(out)
	}
	for range 2 {
		out := demo("--share")
		for _, proof := range []string{
			"status    ACTIVE", "disk.eph0  qcow2  1024 MiB  encrypted  luks  aes-256  xts", "disk.swap  qcow2  64 MiB  encrypted",
			"secrets   0 known to libvirt", "guest     tpm version=2.0 interface=crb", "over TCP it says: hello from 10.", "server delete --wait demo-",
			`written   by the guest, read on the host: "from demo-`,
		} {
			require.Contains(t, out, proof)
		}
	}
	if full() { // emulated, it boots for minutes
		out := demo("--image", debianImage(t), "--ssh", "debian", "--timeout", "15m")
		require.Regexp(t, `over ssh the guest says: demo-\d{6} Debian GNU/Linux 12 \(bookworm\)`, out)
	}
}

// debianImage makes the cloud image, or finds one that the same script has made.
func debianImage(t *testing.T) string {
	t.Helper()
	script, err := filepath.Abs("../deploy/debian-image")
	require.NoError(t, err)
	text, err := os.ReadFile(script)
	require.NoError(t, err)
	file := filepath.Join(guest.DefaultCacheDir(), fmt.Sprintf("debian-%x.qcow2", sha256.Sum256(text)))
	if _, err := os.Stat(file); err == nil {
		return file
	}
	out, err := exec.Command(script, file).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return file
}
