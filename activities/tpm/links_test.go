package tpm_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/activities/tpm"
	"strongroom/compute"
)

// A state folder is swtpm's user's, whom the guest of a server may have in its power: the worker, which is root, writes through no
// symbolic link there, and packs nothing that is outside.
func TestS3NoLinkInAStateIsFollowed(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it gives files to others")
	}
	a, to, _ := hosts(t)
	a.has("some state")
	outside := filepath.Join(t.TempDir(), "passwd")
	require.NoError(t, os.WriteFile(outside, []byte("the host's"), 0o600))
	untouched := func() {
		t.Helper()
		text, err := os.ReadFile(outside)
		require.NoError(t, err)
		require.Equal(t, "the host's", string(text))
		info, err := os.Stat(outside)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	}
	for _, name := range []string{".strongroom", ".strongroom.new", ".strongroom-shown", ".strongroom-shown.new"} {
		require.NoError(t, os.Symlink(outside, a.path(name)))
	}
	show := tpm.ShowInput{Server: a.server, Operation: "the host's"}
	shown, err := a.Shown(t.Context(), show)
	require.False(t, err == nil && shown.Shown, "what a link points to is nobody's note")
	require.NoError(t, a.Show(t.Context(), show))
	untouched()
	shown, err = a.Shown(t.Context(), show)
	require.NoError(t, err)
	require.True(t, shown.Shown)
	require.NoError(t, a.NoteNew(t.Context(), a.server, "req-1", time.Now()))
	untouched()

	name := compute.TPMObject(a.server, "req-1")
	kept, err := a.save(name)
	require.NoError(t, err)
	require.NoError(t, os.Rename(a.path("tpm2"), a.path("elsewhere")))
	require.NoError(t, os.Symlink(filepath.Dir(outside), a.path("tpm2")))
	_, err = a.save(compute.TPMObject(a.server, "req-2"))
	require.True(t, compute.Is(err, compute.Corrupt), "%v", err)

	require.NoError(t, os.Remove(a.path("tpm2")))
	require.NoError(t, os.Rename(a.path("elsewhere"), a.path("tpm2")))
	require.NoError(t, os.Remove(a.path("tpm2", "tpm2-00.permall")))
	require.NoError(t, syscall.Mkfifo(a.path("tpm2", "tpm2-00.permall"), 0o600)) // who opens it waits
	_, err = a.save(compute.TPMObject(a.server, "req-2"))
	require.True(t, compute.Is(err, compute.Corrupt), "%v", err)
	require.NoError(t, to.restore("req-3", compute.StoredTPM{Object: name, SHA256: kept.SHA256}))
	untouched()
}

// An empty folder is no state that somebody could see: a file system that is not mounted looks so.
func TestAnEmptyFolderIsNoState(t *testing.T) {
	t.Parallel()
	a, _, _ := hosts(t)
	require.NoError(t, os.MkdirAll(a.path(), 0o711))
	got, err := a.Shown(t.Context(), tpm.ShowInput{Server: a.server})
	require.NoError(t, err)
	require.False(t, got.Shown)
}
