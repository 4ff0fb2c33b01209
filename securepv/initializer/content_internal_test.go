package initializer

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A device that is closed is free at once, also while a program that is just being started still has
// the descriptor, as between fork and exec.
func TestPV11ACloseGivesTheLockBack(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "device")
	require.NoError(t, os.WriteFile(path, make([]byte, blockBytes), 0o600))
	first, err := openVolume(path, os.O_RDWR)
	require.NoError(t, err)
	require.NoError(t, first.lock())
	child, err := unix.FcntlInt(first.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Close(child)) }()

	second, err := openVolume(path, os.O_RDWR)
	require.NoError(t, err)
	defer second.Close()
	require.ErrorIs(t, second.lock(), ErrBusy)
	require.NoError(t, first.Close())
	require.NoError(t, second.lock())
}
