package disk_test

import (
	"io"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/activities/disk"
	"strongroom/activities/imagefile/hostile"
	"strongroom/compute"
)

// qemus makes QEMU's user of a host another one than the test's.
func (b *testBundle) qemus(t *testing.T) (uid int) {
	t.Helper()
	if os.Getuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("needs root")
		}
		t.Skip("needs root")
	}
	b.Owner = &disk.Owner{UID: 64055, GID: 64055}
	return b.Owner.UID
}

func ownerAndMode(t *testing.T, path string) (int, os.FileMode) {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	return int(info.Sys().(*syscall.Stat_t).Uid), info.Mode().Perm()
}

// M5: QEMU's user reads an image of the cache, and cannot write to it.
func TestM5AnImageIsNotQEMUs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.qemus(t)
	path := b.cache(t, b.noise(t), 0)
	uid, mode := ownerAndMode(t, path)
	require.Zero(t, uid)
	require.Equal(t, os.FileMode(0o444), mode)
	img := b.baseImage(t, "qcow2+luks")
	b.use(t, img.Image, newServer())
	path, err := b.CachedImage(project, img.Image)
	require.NoError(t, err)
	uid, mode = ownerAndMode(t, path)
	require.Zero(t, uid)
	require.Equal(t, os.FileMode(0o444), mode)
}

// M5: an image that has changed since it was checked is used for no disk. It is downloaded
// again once no disk lies on it.
func TestM5AChangedImageIsRefused(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(t *testing.T, path string, qemu int){
		"written to": func(t *testing.T, path string, _ int) { scribble(t, path) },
		"replaced by a file of the same size and time": func(t *testing.T, path string, _ int) {
			info, err := os.Stat(path)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path+".new", make([]byte, info.Size()), 0o444))
			require.NoError(t, os.Chtimes(path+".new", info.ModTime(), info.ModTime()))
			require.NoError(t, os.Rename(path+".new", path))
		},
		"given to QEMU's user, who wrote to it and set its time back": func(t *testing.T, path string, qemu int) {
			info, err := os.Stat(path)
			require.NoError(t, err)
			require.NoError(t, os.Chown(path, qemu, qemu))
			scribble(t, path)
			require.NoError(t, os.Chtimes(path, info.ModTime(), info.ModTime()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			qemu := b.qemus(t)
			img := b.noise(t)
			path := b.cache(t, img, 0)
			good, err := os.ReadFile(path)
			require.NoError(t, err)
			on := rootDisk(img)
			_, err = b.Create(t.Context(), on)
			require.NoError(t, err)
			change(t, path, qemu)

			_, err = b.Create(t.Context(), rootDisk(img))
			require.Equal(t, compute.NotFound, compute.KindOf(err), "%v", err)
			_, ok, err := b.CheckedImage("", img)
			require.NoError(t, err)
			require.False(t, ok)
			err = b.CheckImage(t.Context(), disk.CheckImageInput{Image: img})
			require.Equal(t, compute.Corrupt, compute.KindOf(err), "%v", err)
			err = b.CacheImage(t.Context(), disk.CacheImageInput{Image: img})
			require.Equal(t, compute.Corrupt, compute.KindOf(err), "%v", err)
			require.ErrorContains(t, err, "has changed")
			require.FileExists(t, path, "a disk lies on it")

			require.NoError(t, b.Remove(t.Context(), ofFile(on.Server, "disk")))
			require.NoError(t, b.CacheImage(t.Context(), disk.CacheImageInput{Image: img}))
			_, err = b.Create(t.Context(), rootDisk(img))
			require.NoError(t, err)
			got, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, good, got)
			require.Equal(t, 2, b.images.opened)
		})
	}
}

func scribble(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("changed"), 4096)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// M5: images that an earlier release cached, or that come from a backup, are compared with
// their record once, and kept.
func TestM5AnImageThatWasNeverNotedIsCompared(t *testing.T) {
	t.Parallel()
	b := setup(t)
	qemu := b.qemus(t)
	img := b.noise(t)
	path := b.cache(t, img, 0)
	for _, restore := range []func(){
		func() { require.NoError(t, os.Chown(path, qemu, qemu)); require.NoError(t, os.Chmod(path, 0o644)) },
		func() { require.NoError(t, os.Chtimes(path, time.Now(), time.Now().Add(-time.Hour))) },
		func() { require.NoError(t, os.Remove(b.noteOf(path))) },
	} {
		restore()
		require.NoError(t, b.CacheImage(t.Context(), disk.CacheImageInput{Image: img}))
		_, err := b.Create(t.Context(), rootDisk(img))
		require.NoError(t, err)
		uid, mode := ownerAndMode(t, path)
		require.Zero(t, uid)
		require.Equal(t, os.FileMode(0o444), mode)
	}
	require.Equal(t, 1, b.images.opened)
}

// noteOf is the file in which it is noted that an image was checked.
func (b *testBundle) noteOf(path string) string {
	dir, name := b.CacheDir, path[len(b.CacheDir)+1:]
	return dir + "/." + name + ".checked"
}

// unnoted puts an image into the cache as an earlier release left it: nobody looked at it.
func (b *testBundle) unnoted(t *testing.T, img compute.Image) compute.Image {
	t.Helper()
	path, err := b.CachedImage(project, img)
	require.NoError(t, err)
	data, err := io.ReadAll(b.images.data[img.ID]())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, data, 0o644))
	return img
}

// M3, H5: an image that was cached before images were looked at is looked at before it is used: that its
// bytes are those of its record says nothing of what they do to a host.
func TestM3AnUnnotedImageIsLookedAt(t *testing.T) {
	t.Parallel()
	outside, opened := watched(t)
	b := setup(t)
	for _, f := range hostile.Files(outside) {
		if f.Encrypted || f.Format != "qcow2" {
			continue
		}
		img := b.unnoted(t, b.image(f.Format, f.Data))
		err := b.CheckImage(t.Context(), disk.CheckImageInput{Project: project, Image: img})
		require.Equal(t, compute.Corrupt, compute.KindOf(err), "%s: %v", f.Name, err)
		err = b.CacheImage(t.Context(), disk.CacheImageInput{Image: img})
		require.Equal(t, compute.Corrupt, compute.KindOf(err), "%s: %v", f.Name, err)
		_, ok, err := b.CheckedImage(project, img)
		require.NoError(t, err)
		require.False(t, ok, "%s is not noted as good", f.Name)
	}
	require.False(t, opened())
	require.Zero(t, b.images.opened, "no download")
	for _, f := range hostile.Sound() {
		if f.Encrypted {
			continue
		}
		img := b.unnoted(t, b.image(f.Format, f.Data))
		require.NoError(t, b.CheckImage(t.Context(), disk.CheckImageInput{Project: project, Image: img}), f.Name)
	}
}
