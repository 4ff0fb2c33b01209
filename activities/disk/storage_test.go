package disk_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/disk"
	"strongroom/compute"
)

// A server's disks on storage that two hosts share: the second one finds them, takes them over as they are, though its image cache has another
// path, and gives them back. What is to come to a host is not there.
func TestDisksOnSharedStorage(t *testing.T) {
	t.Parallel()
	a, b := setup(t), setup(t)
	b.InstancesDir = a.InstancesDir
	ids := [2]uuid.UUID{}
	for i, h := range []*testBundle{a, b} {
		var err error
		ids[i], err = h.Storage()
		require.NoError(t, err)
	}
	require.Equal(t, ids[0], ids[1])
	img := a.cached(t, compute.ImageRaw, []byte(strings.Repeat("strongroom", 1<<16)))
	b.images.data = a.images.data
	key, _ := a.secret(t)
	d := compute.Disk{ID: compute.DiskID{UUID: uuid.New()}, Role: compute.RootDisk, SizeMB: 8, Image: &img.ID, Encrypted: true, Secret: key, Format: compute.FormatLUKS}
	server := compute.ServerID{UUID: uuid.New()}
	absent := disk.PingInput{Server: server, Absent: []string{d.Name()}}
	find := disk.FindInput{Server: server, Files: absent.Absent}
	require.NoError(t, b.Ping(t.Context(), absent))
	_, err := b.Find(t.Context(), find)
	require.True(t, compute.Is(err, compute.Conflict), "%v", err)
	_, err = a.Create(t.Context(), disk.CreateInput{Server: server, Disk: d, Image: img})
	require.NoError(t, err)
	require.True(t, compute.Is(b.Ping(t.Context(), absent), compute.Conflict))
	require.True(t, compute.Is(b.CheckRoom(t.Context(), disk.CheckRoomInput{Server: server, Absent: absent.Absent}), compute.Conflict))

	found, err := b.Find(t.Context(), find)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(found.Backing, a.CacheDir), found.Backing)
	in := disk.TakeOverInput{Server: server, Disks: []compute.Disk{d}, Image: img}
	require.True(t, compute.Is(b.TakeOver(t.Context(), in), compute.NotFound), "its cache has no image")
	require.NoError(t, b.CacheImage(t.Context(), disk.CacheImageInput{Image: *img}))
	backing := func() string {
		out, err := exec.Command("qemu-img", "info", "-U", filepath.Join(a.InstancesDir, server.String(), d.Name())).Output()
		require.NoError(t, err)
		return string(out)
	}
	for range 2 {
		require.NoError(t, b.TakeOver(t.Context(), in))
		require.Contains(t, backing(), "backing file: "+b.CacheDir)
	}
	in.Backing = "/etc/passwd"
	require.True(t, compute.Is(b.TakeOver(t.Context(), in), compute.Invalid))
	in.Backing = found.Backing
	for range 2 {
		require.NoError(t, b.TakeOver(t.Context(), in))
		require.Contains(t, backing(), "backing file: "+a.CacheDir)
	}
	path := filepath.Join(a.InstancesDir, server.String(), d.Name())
	require.NoError(t, os.Rename(path, path+".file"))
	require.NoError(t, os.Symlink("/dev/null", path))
	_, err = b.Find(t.Context(), find)
	require.True(t, compute.Is(err, compute.Conflict), "it is no file: %v", err)
}
