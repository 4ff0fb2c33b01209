package cloudtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Ceph is the cluster below Manila's shares of CephFS.
type Ceph struct {
	// ConfFile is what a client of the cluster reads: the monitor's address and no
	// key. The address is also in a share's export location.
	ConfFile string
}

// OpenCeph gives the cloud's Ceph, or skips the test.
func OpenCeph(t testing.TB) Ceph {
	t.Helper()
	dir := filepath.Dir(Open(t))
	if _, err := os.Stat(filepath.Join(dir, "run", "ceph")); err != nil {
		if os.Getenv(Required) != "" {
			t.Fatalf("the cloud in %s runs no ceph: deploy/install-packages ceph", dir)
		}
		t.Skipf("needs Ceph: the cloud in %s runs none", dir)
	}
	return Ceph{ConfFile: filepath.Join(dir, "ceph", "client.conf")}
}

// Mount mounts an export location of CephFS with a user's key. It is unmounted with
// the test, and lazily, for whoever is shut out cannot do it otherwise. The test is
// skipped where it is not root's.
func (c Ceph) Mount(t testing.TB, location, user, key string) (folder string) {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv(Required) != "" {
			t.Fatal("must be root to mount")
		}
		t.Skip("needs root to mount")
	}
	dir, err := os.MkdirTemp("/tmp", "sr-mount-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	folder, keyring := filepath.Join(dir, "mount"), filepath.Join(dir, "keyring")
	require.NoError(t, os.Mkdir(folder, 0o700))
	require.NoError(t, os.WriteFile(keyring, []byte("[client."+user+"]\n\tkey = "+key+"\n"), 0o600))
	monitors, path, found := strings.Cut(location, ":/")
	require.True(t, found)
	// In the foreground, as a child of this process: nobody else would collect it.
	cmd := exec.Command("ceph-fuse", "-f", "-c", c.ConfFile, "-m", monitors, "--id", user, "-k", keyring, "-r", "/"+path, "--client_mount_timeout=10", folder)
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	require.NoError(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // what it said tells more
		close(ended)
	}()
	t.Cleanup(func() {
		_ = unix.Unmount(folder, unix.MNT_DETACH)
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
		}
	})
	var before, now unix.Stat_t
	require.NoError(t, unix.Stat(dir, &before))
	require.Eventually(t, func() bool {
		select {
		case <-ended:
			require.Fail(t, "ceph-fuse ended", strings.ReplaceAll(said.String(), key, "[key]"))
		default:
		}
		return unix.Stat(folder, &now) == nil && now.Dev != before.Dev
	}, 20*time.Second, 20*time.Millisecond)
	return folder
}
