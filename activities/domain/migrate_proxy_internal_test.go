package domain

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

type nowhere struct{ Arrivals }

func (nowhere) Stream(context.Context, compute.Agent, compute.Arrival, string) (Stream, error) {
	return nil, compute.Errorf(compute.Unavailable, "there is no other host")
}

// S4: QEMU's user may connect to the sockets of a guest that leaves, and puts nothing in their place: they are made and given away as root.
func TestS4SocketsAreGivenAwayInAFolderOfRoot(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it gives files to others")
	}
	dir, err := os.MkdirTemp("", "s4") // the paths of sockets are short
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	qemu := filepath.Join(dir, "qemu")
	require.NoError(t, os.Mkdir(qemu, 0o700))
	require.NoError(t, os.Chown(qemu, 65534, 65534))
	require.NoError(t, os.Chmod(dir, 0o711))
	a, err := New(Config{InstancesDir: filepath.Join(dir, "instances"), RunDir: filepath.Join(dir, "run"), QEMUDir: qemu, VirtType: "qemu"})
	require.NoError(t, err)
	as := func(name string, args ...string) error {
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := cmd.CombinedOutput()
		t.Logf("%s %v: %v %s", name, args, err, out)
		return err
	}
	target := filepath.Join(t.TempDir(), "shadow")
	require.NoError(t, os.WriteFile(target, []byte("the host's"), 0o600))

	d := &departure{Activities: a, MigrateInput: MigrateInput{Server: compute.ServerID{UUID: uuid.New()}}}
	p, err := d.openProxy(t.Context(), nowhere{}, compute.Agent{})
	require.NoError(t, err)
	is, err := os.Stat(p.dir)
	require.NoError(t, err)
	require.Equal(t, os.ModeDir|0o750, is.Mode())
	for _, socket := range sockets(p.dir) {
		is, err := os.Lstat(socket)
		require.NoError(t, err)
		require.Equal(t, os.ModeSocket|0o600, is.Mode())
		require.Error(t, as("ln", "-sfn", target, socket))
		require.Error(t, as("mv", socket, filepath.Join(p.dir, "x")))
		require.Error(t, as("touch", filepath.Join(p.dir, "x")))
		require.NoError(t, as("/usr/bin/python3", "-c", "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])", socket))
	}
	is, err = os.Stat(target)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), is.Mode())
	p.close()
	require.NoDirExists(t, p.dir)
}
