package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

func TestHostIDIsMadeOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "below", "host.id")
	first, isNew, err := hostID(path)
	require.NoError(t, err)
	require.True(t, isNew)
	second, isNew, err := hostID(path)
	require.NoError(t, err)
	require.False(t, isNew)
	require.Equal(t, first, second)
	require.NoError(t, os.WriteFile(path, []byte("no uuid"), 0o600))
	_, _, err = hostID(path)
	require.ErrorContains(t, err, "uuid")
}

// A host takes the folders that it had, and none in the place of a file system that is
// not mounted (EE-27).
func TestAHostKnowsItsFolders(t *testing.T) {
	t.Parallel()
	host := uuid.New()
	dir := filepath.Join(t.TempDir(), "strongroom", "instances")
	require.ErrorContains(t, claimFolder(dir, host, false), "is its file system mounted?")
	require.NoDirExists(t, dir)
	require.NoError(t, claimFolder(dir, host, true))
	require.NoError(t, claimFolder(dir, host, false))
	require.ErrorContains(t, claimFolder(dir, uuid.New(), true), "is the folder of host "+host.String())

	require.NoError(t, os.Remove(filepath.Join(dir, hostMark)))
	require.ErrorContains(t, claimFolder(dir, host, false), "is its file system mounted?")
	require.NoFileExists(t, filepath.Join(dir, hostMark))
	require.NoError(t, os.Mkdir(filepath.Join(dir, uuid.NewString()), 0o711))
	require.NoError(t, claimFolder(dir, host, false), "one with servers in it is the right one")
	require.FileExists(t, filepath.Join(dir, hostMark))
}
