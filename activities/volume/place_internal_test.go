package volume

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"strongroom/compute"
)

const qemu = 64055 // any user but root

// S3: root mounts the volume on no folder to which a user of the host leads it by a link, and makes none there; links that root put are followed, as an
// operator has them who keeps libvirt's folders elsewhere.
func TestS3PlaceFollowsRootsLinksAlone(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it gives folders to others")
	}
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o755))
	elsewhere, of := filepath.Join(dir, "elsewhere"), filepath.Join(dir, "qemu")
	for _, name := range []string{elsewhere, of, filepath.Join(of, "save")} {
		require.NoError(t, os.Mkdir(name, 0o755))
	}
	require.NoError(t, os.Chown(of, qemu, qemu))
	require.NoError(t, os.Symlink("qemu", filepath.Join(dir, "roots")))
	require.NoError(t, os.Symlink(filepath.Join(dir, "elsewhere"), filepath.Join(dir, "absolute")))
	require.NoError(t, os.Symlink("circle", filepath.Join(dir, "circle")))
	require.NoError(t, os.Symlink(elsewhere, filepath.Join(of, "planted")))
	require.NoError(t, os.WriteFile(filepath.Join(of, "file"), nil, 0o600))
	same := func(got *os.File, name string) {
		t.Helper()
		is, err := got.Stat()
		require.NoError(t, err)
		want, err := os.Stat(name)
		require.NoError(t, err)
		require.True(t, os.SameFile(want, is), name)
		require.NoError(t, got.Close())
	}
	for path, want := range map[string]string{
		"qemu/save": "qemu/save", "roots/save": "qemu/save", "absolute": "elsewhere", "absolute/new/er": "elsewhere/new/er", "roots/made": "qemu/made", "qemu/../absolute": "elsewhere",
	} {
		got, err := place(filepath.Join(dir, path))
		require.NoError(t, err, path)
		same(got, filepath.Join(dir, want))
	}
	for _, path := range []string{"qemu/planted", "roots/planted", "qemu/planted/new", "roots/planted/new/er"} {
		_, err := place(filepath.Join(dir, path))
		require.Equal(t, compute.Conflict, compute.KindOf(err), "%s: %v", path, err)
	}
	entries, err := os.ReadDir(elsewhere)
	require.NoError(t, err)
	require.Len(t, entries, 1, "nothing was made behind the planted link")
	for _, path := range []string{"circle", "qemu/file", "qemu/file/below"} {
		_, err := place(filepath.Join(dir, path))
		require.Error(t, err, path)
	}

	// What was opened is what is mounted on, when another thing has its name.
	got, err := place(filepath.Join(of, "save"))
	require.NoError(t, err)
	require.NoError(t, os.Rename(filepath.Join(of, "save"), filepath.Join(of, "moved")))
	require.NoError(t, os.Symlink(elsewhere, filepath.Join(of, "save")))
	same(got, filepath.Join(of, "moved"))
	_, err = place(filepath.Join(of, "save"))
	require.Equal(t, compute.Conflict, compute.KindOf(err), "%v", err)
}

// S3: a folder of the volume is mounted where libvirt finds it, and nowhere else.
func TestS3AFolderOfTheVolumeIsMountedInItsPlaceAlone(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it mounts")
	}
	dir := t.TempDir()
	on, of, elsewhere := filepath.Join(dir, "volume"), filepath.Join(dir, "qemu"), filepath.Join(dir, "elsewhere")
	for _, name := range []string{on, of, elsewhere} {
		require.NoError(t, os.Mkdir(name, 0o755))
	}
	require.NoError(t, os.WriteFile(filepath.Join(on, "file"), nil, 0o600))
	require.NoError(t, os.Chown(of, qemu, qemu))
	save := filepath.Join(of, "save")
	require.NoError(t, showAt(on, save))
	require.FileExists(t, filepath.Join(save, "file"))
	require.NoError(t, errors.Join(unix.Unmount(save, unix.UMOUNT_NOFOLLOW), os.Remove(save), os.Symlink(elsewhere, save)))
	err := showAt(on, save)
	require.Equal(t, compute.Conflict, compute.KindOf(err), "%v", err)
	require.NoFileExists(t, filepath.Join(elsewhere, "file"))
	require.False(t, isAt(save, on))
}
