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

// What opens a host's volume is not on it, and what it is for is; folders are where libvirt has them, with folders of the
// volume there, unless they are to stay as they are.
func TestAHostsVolumeHasItsFolders(t *testing.T) {
	t.Parallel()
	good := defaults().Host
	good.SecureState, good.Instances, good.ImageCache = "/state", "/state/instances", "/state/cache"
	require.NoError(t, good.checkState())
	require.Equal(t, []string{"/var/lib/libvirt/swtpm", "/var/lib/libvirt/qemu/save"}, shownAt(good))
	for why, change := range map[string]func(*HostConfig){
		"no absolute path":               func(h *HostConfig) { h.SecureState = "state" },
		"must be below":                  func(h *HostConfig) { h.ImageCache = "/statecache" },
		"cannot be on the volume":        func(h *HostConfig) { h.Certificate = "/state/certificate" },
		"cannot be in /,":                func(h *HostConfig) { h.SwtpmState = "/" },
		"cannot be in /state,":           func(h *HostConfig) { h.SuspendState = "/state" },
		"host.suspend_state: save is no": func(h *HostConfig) { h.SuspendState = "save" },
	} {
		bad := good
		change(&bad)
		require.ErrorContains(t, bad.checkState(), why)
	}
	const swtpm, save = "/var/lib/libvirt/swtpm", "/var/lib/libvirt/qemu/save"
	for why, c := range map[string]struct {
		change func(*HostConfig)
		shown  []string
	}{
		"there is no volume":        {func(h *HostConfig) { h.SecureState = "" }, nil},
		"there are no vTPMs":        {func(h *HostConfig) { h.SwtpmEnabled = false }, []string{save}},
		"hosts share it":            {func(h *HostConfig) { h.SwtpmOnVolume = false }, []string{save}},
		"it is there already":       {func(h *HostConfig) { h.SwtpmState = "/state/swtpm" }, []string{save}},
		"memory is not to be there": {func(h *HostConfig) { h.SuspendState = "" }, []string{swtpm}},
		"memory is there already":   {func(h *HostConfig) { h.SuspendState = "/state/save" }, []string{swtpm}},
	} {
		some := good
		c.change(&some)
		require.NoError(t, some.checkState(), why)
		require.Equal(t, c.shown, shownAt(some), why)
	}
}

func shownAt(h HostConfig) (at []string) {
	for _, s := range h.shownOfVolume() {
		at = append(at, s.At)
	}
	return at
}
