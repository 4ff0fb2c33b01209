package domain_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/activities/disk"
	"strongroom/activities/domain"
	"strongroom/compute"
)

// M5: the image under a disk stays root's while guests run from it, so that no QEMU can write
// to what lies under the disks of others; and no guest starts from one that has changed.
func TestM5TheImageUnderADiskIsNotGivenToQEMU(t *testing.T) {
	t.Parallel()
	h := setup(t, tiny)
	s := h.server(t, false, nil)
	h.disksOf(t, s)
	image, err := h.disks.CachedImage("", h.image)
	require.NoError(t, err)
	owner := func(path string) uint32 {
		info, err := os.Stat(path)
		require.NoError(t, err)
		if path == image {
			require.Zero(t, info.Mode()&0o222)
		}
		return info.Sys().(*syscall.Stat_t).Uid
	}
	require.Zero(t, owner(image))
	_, err = h.Start(t.Context(), domain.StartInput{Server: s})
	require.NoError(t, err)
	require.Zero(t, owner(image))
	require.NotZero(t, owner(filepath.Join(h.InstancesDir, s.ID.String(), "disk")), "that is the guest's own")
	h.hear(t, s, "TG ready", 0) // it is read through the image
	_, err = h.Stop(t.Context(), domain.StopInput{Server: s.ID})
	require.NoError(t, err)
	require.Zero(t, owner(image))

	f, err := os.OpenFile(image, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("changed"), h.image.SizeBytes/2)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	root, ok := s.RootDisk()
	require.True(t, ok)
	unchecked := func() {
		t.Helper()
		got, err := h.Start(t.Context(), domain.StartInput{Server: s})
		require.NoError(t, err)
		require.Equal(t, []compute.DiskID{root.ID}, got.Unchecked)
		require.Equal(t, compute.PowerShutdown, got.PowerState)
		require.Zero(t, qemus(t, s))
	}
	unchecked()
	err = h.disks.CheckImage(t.Context(), disk.CheckImageInput{Project: s.ProjectID, Image: h.image})
	require.Equal(t, compute.Corrupt, compute.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "has changed")
	unchecked()
}

// M5: a start reads no image. One that was touched is compared by an activity for long work,
// and then the guest starts.
func TestM5AStartReadsNoImage(t *testing.T) {
	t.Parallel()
	require.True(t, disk.CheckImage.Bulk)
	h := setup(t, tiny)
	s := h.server(t, false, nil)
	h.disksOf(t, s)
	image, err := h.disks.CachedImage("", h.image)
	require.NoError(t, err)
	require.NoError(t, os.Chtimes(image, time.Now(), time.Now().Add(-time.Hour)))
	got, err := h.Start(t.Context(), domain.StartInput{Server: s})
	require.NoError(t, err)
	require.Len(t, got.Unchecked, 1)
	require.Zero(t, qemus(t, s))
	require.NoError(t, h.disks.CheckImage(t.Context(), disk.CheckImageInput{Project: s.ProjectID, Image: h.image}))
	got, err = h.Start(t.Context(), domain.StartInput{Server: s})
	require.NoError(t, err)
	require.Empty(t, got.Unchecked)
	require.Equal(t, compute.PowerRunning, got.PowerState)
}
