package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/volume"
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
	require.ErrorContains(t, claimFolder(dir, host, false, false), "is its file system mounted?")
	require.NoDirExists(t, dir)
	require.NoError(t, claimFolder(dir, host, true, false))
	require.NoError(t, claimFolder(dir, host, false, false))
	require.ErrorContains(t, claimFolder(dir, uuid.New(), true, false), "is the folder of host "+host.String())

	require.NoError(t, os.Remove(filepath.Join(dir, volume.Mark)))
	require.ErrorContains(t, claimFolder(dir, host, false, false), "is its file system mounted?")
	require.NoFileExists(t, filepath.Join(dir, volume.Mark))
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".strongroom-storage"), nil, 0o600))
	require.ErrorContains(t, claimFolder(dir, host, false, false), "is its file system mounted?", "what tells a storage is no server's")
	require.NoError(t, os.Mkdir(filepath.Join(dir, uuid.NewString()), 0o711))
	require.NoError(t, claimFolder(dir, host, false, false), "one with servers in it is the right one")
	require.FileExists(t, filepath.Join(dir, volume.Mark))
}

// A folder that is another host's is taken by one that is set up to share it. From then on nobody takes it that is not.
func TestHostsShareAFolder(t *testing.T) {
	t.Parallel()
	one, other := uuid.New(), uuid.New()
	dir := filepath.Join(t.TempDir(), "instances")
	require.NoError(t, claimFolder(dir, one, true, false))
	require.ErrorContains(t, claimFolder(dir, other, true, false), "host.share_instances")
	for range 2 {
		require.NoError(t, claimFolder(dir, other, false, true))
		require.NoError(t, claimFolder(dir, one, false, true))
	}
	text, err := os.ReadFile(filepath.Join(dir, volume.Mark))
	require.NoError(t, err)
	require.Equal(t, one.String()+"\n"+other.String()+"\n", string(text))
	for _, host := range []uuid.UUID{one, other, uuid.New()} {
		require.ErrorContains(t, claimFolder(dir, host, false, false), "host.share_instances")
	}
}

// What opens a host's volume is not on it, and what it is for is; swtpm's folder is where libvirt has it, with a folder of the
// volume there, unless it is to stay as it is.
func TestAHostsVolumeHasItsFolders(t *testing.T) {
	t.Parallel()
	good := defaults().Host
	good.SecureState, good.Instances, good.ImageCache = "/state", "/state/instances", "/state/cache"
	require.NoError(t, good.checkState())
	require.Equal(t, "/var/lib/libvirt/swtpm", good.tpmOnVolume())
	for why, change := range map[string]func(*HostConfig){
		"no absolute path":               func(h *HostConfig) { h.SecureState = "state" },
		"must be below":                  func(h *HostConfig) { h.ImageCache = "/statecache" },
		"cannot be on the volume":        func(h *HostConfig) { h.Certificate = "/state/certificate" },
		"cannot be in host.swtpm_state,": func(h *HostConfig) { h.SwtpmState = "/" },
	} {
		bad := good
		change(&bad)
		require.ErrorContains(t, bad.checkState(), why)
	}
	for why, change := range map[string]func(*HostConfig){
		"there is no volume":  func(h *HostConfig) { h.SecureState = "" },
		"there are no vTPMs":  func(h *HostConfig) { h.SwtpmEnabled = false },
		"hosts share it":      func(h *HostConfig) { h.SwtpmOnVolume = false },
		"it is there already": func(h *HostConfig) { h.SwtpmState = "/state/swtpm" },
	} {
		none := good
		change(&none)
		require.NoError(t, none.checkState(), why)
		require.Empty(t, none.tpmOnVolume(), why)
	}
}
