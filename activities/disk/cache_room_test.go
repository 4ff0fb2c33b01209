package disk_test

import (
	"bytes"
	"crypto/rand"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/activities/disk"
	"strongroom/compute"
)

const imageBytes = 1 << 20

// noise makes an image that is like no other.
func (b *testBundle) noise(t *testing.T) compute.Image {
	t.Helper()
	data := make([]byte, imageBytes)
	_, err := rand.Read(data)
	require.NoError(t, err)
	return b.image("raw", data)
}

// limitCache lets the cache grow by so many images, and a half.
func (b *testBundle) limitCache(t *testing.T, images int64) {
	t.Helper()
	b.CacheBytes = imageBytes*images + imageBytes/2
	require.NoError(t, filepath.WalkDir(b.CacheDir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			info, err := d.Info()
			require.NoError(t, err)
			b.CacheBytes += info.Size()
		}
		return err
	}))
}

// cache caches an image that was used some hours ago.
func (b *testBundle) cache(t *testing.T, img compute.Image, hoursAgo int) (path string) {
	t.Helper()
	require.NoError(t, b.CacheImage(t.Context(), disk.CacheImageInput{Image: img}))
	path, err := b.CachedImage("", img)
	require.NoError(t, err)
	require.NoError(t, os.Chtimes(path, time.Now().Add(-time.Duration(hoursAgo)*time.Hour), time.Time{}))
	return path
}

// rootDisk asks for a disk on an image.
func rootDisk(img compute.Image) disk.CreateInput {
	return disk.CreateInput{Server: newServer(), Image: &img, Disk: compute.Disk{ID: newDisk(), Role: compute.RootDisk}}
}

// H7: a full cache loses the image that was not used for longest.
func TestH7TheLeastRecentlyUsedImageGoes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.limitCache(t, 2)
	used := b.noise(t)
	first, second := b.cache(t, used, 9), b.cache(t, b.noise(t), 5)
	require.NoError(t, b.CacheImage(t.Context(), disk.CacheImageInput{Image: used})) // just now
	third := b.cache(t, b.noise(t), 0)
	require.FileExists(t, first)
	require.NoFileExists(t, second)
	require.FileExists(t, third)
	require.Equal(t, 3, b.images.opened)
	found, err := filepath.Glob(filepath.Join(b.CacheDir, ".*.checked"))
	require.NoError(t, err)
	require.Len(t, found, 2, "nothing is left of it")
}

// H7: an image on which a disk lies stays, however long ago it was used. When no other can
// go, a create is refused.
func TestH7AnImageUnderADiskStays(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.limitCache(t, 2)
	old, next := b.noise(t), b.noise(t)
	first := b.cache(t, old, 9)
	on := rootDisk(old)
	_, err := b.Create(t.Context(), on)
	require.NoError(t, err)
	require.NoError(t, os.Chtimes(first, time.Now().Add(-time.Hour*9), time.Time{}))
	second := b.cache(t, b.noise(t), 1)
	third := b.cache(t, next, 0)
	require.FileExists(t, first)
	require.NoFileExists(t, second)
	_, err = b.Create(t.Context(), rootDisk(next))
	require.NoError(t, err)

	refused := b.noise(t)
	err = b.CacheImage(t.Context(), disk.CacheImageInput{Image: refused})
	require.Equal(t, compute.NoHost, compute.KindOf(err), "%v", err)
	require.ErrorContains(t, err, refused.ID.String())
	require.ErrorContains(t, err, "image cache")
	require.NotContains(t, err.Error(), b.CacheDir)
	require.FileExists(t, first)
	require.FileExists(t, third)
	require.Len(t, b.cachedImages(t), 2, "nothing of the one that was refused")

	require.NoError(t, b.Remove(t.Context(), ofFile(on.Server, "disk")))
	require.NoError(t, b.CacheImage(t.Context(), disk.CacheImageInput{Image: refused}))
	require.NoFileExists(t, first)
	require.FileExists(t, third)
}

// H7: an image that could never fit takes no other with it.
func TestH7AnImageLargerThanTheCacheIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	kept := b.cache(t, b.noise(t), 9)
	b.CacheBytes = imageBytes / 2
	err := b.CacheImage(t.Context(), disk.CacheImageInput{Image: b.noise(t)})
	require.Equal(t, compute.NoHost, compute.KindOf(err), "%v", err)
	require.FileExists(t, kept)
}

// H7: what is on its way has its room, and what a killed download left has none.
func TestH7DownloadsUnderWayCount(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.limitCache(t, 1)
	left := b.noise(t)
	path, err := b.CachedImage("", left)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path+".part", make([]byte, imageBytes), 0o600))
	first, letGo := b.slow(bytes.Repeat([]byte{7}, imageBytes))
	ended := make(chan error)
	go func() { ended <- b.CacheImage(t.Context(), disk.CacheImageInput{Image: first}) }()
	b.downloads(t, 1)
	require.NoFileExists(t, path+".part")
	err = b.CacheImage(t.Context(), disk.CacheImageInput{Image: b.noise(t)})
	letGo()
	require.Equal(t, compute.NoHost, compute.KindOf(err), "%v", err)
	require.NoError(t, <-ended)
}

// H7: copies of encrypted images count, and stay while they are used.
func TestH7CopiesOfEncryptedImagesCount(t *testing.T) {
	t.Parallel()
	b := setup(t)
	img := b.baseImage(t, "qcow2+luks")
	b.use(t, img.Image, newServer())
	uses := b.seen(t, compute.ThingCachedImage)
	b.limitCache(t, 0)
	plain := b.noise(t)
	err := b.CacheImage(t.Context(), disk.CacheImageInput{Image: plain})
	require.Equal(t, compute.NoHost, compute.KindOf(err), "%v", err)
	require.Equal(t, uses, b.seen(t, compute.ThingCachedImage))
	path, err := b.CachedImage(project, img.Image)
	require.NoError(t, err)
	require.FileExists(t, path)

	b.CacheBytes += imageBytes / 2 // and the copy has more than half an image
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Greater(t, info.Size(), int64(imageBytes/2))
	for _, use := range uses {
		require.NoError(t, b.Remove(t.Context(), ofUse(use)))
	}
	require.NoError(t, b.CacheImage(t.Context(), disk.CacheImageInput{Image: plain}))
}

// H7: an image may go between its download and the disk that is made on it: then it is
// downloaded again.
func TestH7ADiskOfAnImageThatWent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.limitCache(t, 1)
	img := b.noise(t)
	gone := b.cache(t, img, 1)
	b.cache(t, b.noise(t), 0)
	require.NoFileExists(t, gone)
	_, err := b.Create(t.Context(), rootDisk(img))
	require.NoError(t, err)
	require.FileExists(t, gone)
}

// H7: templates of encrypted disks go too, and are made again.
func TestH7TemplatesMakeRoom(t *testing.T) {
	t.Parallel()
	b := setup(t)
	key, _ := b.secret(t)
	swap := func(mb int64) disk.CreateInput {
		return disk.CreateInput{Server: newServer(), Disk: compute.Disk{
			ID: newDisk(), Role: compute.SwapDisk, SizeMB: mb, Encrypted: true, Format: compute.FormatLUKS, Secret: key}}
	}
	b.limitCache(t, 1)
	for mb := range int64(4) {
		_, err := b.Create(t.Context(), swap(mb+1))
		require.NoError(t, err)
	}
	templates := func() int {
		found, err := filepath.Glob(filepath.Join(b.CacheDir, "templates", "*.qcow2"))
		require.NoError(t, err)
		return len(found)
	}
	require.Equal(t, 5, templates(), "one of each size, and the blank one")
	b.cache(t, b.noise(t), 0)
	require.Less(t, templates(), 5)
	require.FileExists(t, filepath.Join(b.CacheDir, disk.BlankTemplate))
	_, err := b.Create(t.Context(), swap(1))
	require.NoError(t, err)
}

// H7: disks are made while other images push theirs out. No disk loses what it lies on.
func TestH7DisksAreMadeWhileImagesGo(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.limitCache(t, 4)
	var all sync.WaitGroup
	var mu sync.Mutex
	made := map[string]bool{} // paths of images on which there is a disk
	for range 3 {
		fixed, others := b.noise(t), []compute.Image{b.noise(t), b.noise(t), b.noise(t)}
		for range 2 {
			all.Go(func() {
				in := rootDisk(fixed)
				err := b.again(t, func() error { _, err := b.Create(t.Context(), in); return err })
				if compute.Is(err, compute.NoHost) { // all are in use at the moment
					return
				}
				require.NoError(t, err)
				path, err := b.CachedImage("", fixed)
				require.NoError(t, err)
				mu.Lock()
				defer mu.Unlock()
				made[path] = true
			})
		}
		for _, img := range others {
			all.Go(func() {
				err := b.again(t, func() error { return b.CacheImage(t.Context(), disk.CacheImageInput{Image: img}) })
				if err != nil {
					require.Equal(t, compute.NoHost, compute.KindOf(err), "%v", err)
				}
			})
		}
	}
	all.Wait()
	require.NotEmpty(t, made)
	for path := range made {
		require.FileExists(t, path)
	}
}
