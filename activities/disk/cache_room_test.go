package disk_test

import (
	"bytes"
	"crypto/rand"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
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

// H6: an image that is locked for a moment only, as by a program that is being started, goes all the same.
func TestH6AnImageThatIsLockedForAMoment(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.limitCache(t, 1)
	path := b.cache(t, b.noise(t), 1)
	f, err := os.Open(path)
	require.NoError(t, err)
	require.NoError(t, syscall.Flock(int(f.Fd()), syscall.LOCK_SH))
	time.AfterFunc(100*time.Millisecond, func() { _ = f.Close() })
	b.cache(t, b.noise(t), 1)
	require.NoFileExists(t, path)
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

// H6: an image may go between its download and the disk that is made on it. That is downloaded
// again by who has a slot for it, and never while a disk is made.
func TestH6ADiskOfAnImageThatWent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.limitCache(t, 1)
	img := b.noise(t)
	gone := b.cache(t, img, 1)
	b.cache(t, b.noise(t), 0)
	require.NoFileExists(t, gone)
	on := rootDisk(img)
	_, err := b.Create(t.Context(), on)
	require.Equal(t, compute.NotFound, compute.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "image "+img.ID.String()+" is not in the host's cache")
	require.Equal(t, 2, b.images.opened, "nothing is downloaded")
	require.NoError(t, b.CacheImage(t.Context(), disk.CacheImageInput{Image: img}))
	_, err = b.Create(t.Context(), on)
	require.NoError(t, err)
	require.FileExists(t, gone)
}

// H6: two projects whose images fit into the cache one at a time do not take them from each
// other: each is kept until there is a disk on it, or for a moment. The other one waits, in no
// slot, and gets a final answer once there is a disk.
func TestH6AnImageStaysForTheDiskThatIsToBeMade(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.CacheHold = time.Hour
	b.limitCache(t, 1)
	mine, theirs := b.noise(t), b.noise(t)
	cache := func(img compute.Image) error {
		return b.CacheImage(t.Context(), disk.CacheImageInput{Image: img})
	}
	waits := func(img compute.Image) {
		t.Helper()
		err := cache(img)
		require.Equal(t, compute.Unavailable, compute.KindOf(err), "%v", err)
		var again interface{ RetryAfter() time.Duration }
		require.ErrorAs(t, err, &again)
	}
	ago := func(path string, d time.Duration) {
		t.Helper()
		require.NoError(t, os.Chtimes(path, time.Now().Add(-d), time.Time{}))
	}
	require.NoError(t, cache(mine))
	path, err := b.CachedImage("", mine)
	require.NoError(t, err)
	for range 5 {
		waits(theirs)
	}
	require.Equal(t, 1, b.images.opened)
	ago(path, 59*time.Minute)
	require.NoError(t, cache(mine), "for another disk")
	waits(theirs)

	in := rootDisk(mine)
	_, err = b.Create(t.Context(), in)
	require.NoError(t, err, "it never went")
	err = cache(theirs)
	require.Equal(t, compute.NoHost, compute.KindOf(err), "a disk lies on it: %v", err)
	require.NoError(t, b.Remove(t.Context(), ofFile(in.Server, "disk")))
	waits(theirs)
	ago(path, 61*time.Minute)
	require.NoError(t, cache(theirs), "nobody made a disk of it")
	require.NoFileExists(t, path)
}

// H6: nothing goes from the cache for an image that has no room even so, or has to wait for it.
func TestH6NothingGoesFromTheCacheInVain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.CacheHold = time.Hour
	b.limitCache(t, 2)
	kept, mine, large := b.noise(t), b.noise(t), b.image("raw", make([]byte, 2*imageBytes))
	cache := func(img compute.Image) error {
		return b.CacheImage(t.Context(), disk.CacheImageInput{Image: img})
	}
	require.NoError(t, cache(kept))
	require.NoError(t, cache(mine))
	path, err := b.CachedImage("", kept)
	require.NoError(t, err)
	require.NoError(t, os.Chtimes(path, time.Now().Add(-61*time.Minute), time.Time{}))
	require.Equal(t, compute.Unavailable, compute.KindOf(cache(large)), "a disk is to be made of the other one")
	require.FileExists(t, path)
	_, err = b.Create(t.Context(), rootDisk(mine))
	require.NoError(t, err)
	require.Equal(t, compute.NoHost, compute.KindOf(cache(large)), "a disk lies on the other one")
	require.FileExists(t, path)
	require.NoError(t, cache(b.noise(t)), "it goes for what has room then")
	require.NoFileExists(t, path)
}

// H6: a host whose clock was set back keeps no image until the clock has caught up.
func TestH6AnImageOfTheFutureDoesNotStay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.CacheHold = time.Hour
	b.limitCache(t, 1)
	mine := b.noise(t)
	require.NoError(t, b.CacheImage(t.Context(), disk.CacheImageInput{Image: mine}))
	path, err := b.CachedImage("", mine)
	require.NoError(t, err)
	require.NoError(t, os.Chtimes(path, time.Now().Add(61*time.Minute), time.Time{}))
	require.NoError(t, b.CacheImage(t.Context(), disk.CacheImageInput{Image: b.noise(t)}))
	require.NoFileExists(t, path)
}

// H6: so it is on every host.
func TestH6ImagesStayForAMinute(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, err := disk.New(disk.Config{InstancesDir: filepath.Join(dir, "instances"), CacheDir: filepath.Join(dir, "cache"), Owner: &disk.Owner{}})
	require.NoError(t, err)
	require.Equal(t, time.Minute, a.CacheHold)
}

// H6: that a download takes long is not held against its image, and what a killed one left is
// kept for nobody.
func TestH6AnImageIsKeptFromTheEndOfItsDownload(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.CacheHold = time.Hour
	b.limitCache(t, 1)
	mine := b.noise(t)
	path, err := b.CachedImage("", mine)
	require.NoError(t, err)
	left := path + ".part"
	require.NoError(t, os.WriteFile(left, nil, 0o600))
	require.NoError(t, os.Chtimes(left, time.Now().Add(-2*time.Hour), time.Time{}))
	require.NoError(t, b.CacheImage(t.Context(), disk.CacheImageInput{Image: mine}))
	err = b.CacheImage(t.Context(), disk.CacheImageInput{Image: b.noise(t)})
	require.Equal(t, compute.Unavailable, compute.KindOf(err), "%v", err)

	require.NoError(t, os.Remove(path))
	other := b.noise(t)
	killed, err := b.CachedImage("", other)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(killed+".part", make([]byte, imageBytes), 0o600))
	require.NoError(t, b.CacheImage(t.Context(), disk.CacheImageInput{Image: mine}))
	require.NoFileExists(t, killed+".part")
}

// H7: a copy of an encrypted image that has changed goes, and comes back with the next
// CacheImage; no disk is made, or waits, meanwhile.
func TestH7AnEncryptedCopyThatWentComesBack(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(t *testing.T, path string){
		"changed": scribble,
		"removed": func(t *testing.T, path string) { require.NoError(t, os.Remove(path)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			img := b.baseImage(t, "qcow2+luks")
			copied := compute.SecretID{UUID: newDisk().UUID}
			b.keys[copied] = img.key
			d := compute.Disk{ID: newDisk(), Role: compute.RootDisk, Encrypted: true, Format: compute.FormatLUKS, BackingSecret: &copied}
			d.Secret, _ = b.secret(t)
			on := disk.CreateInput{Server: newServer(), Project: project, Disk: d, Image: &img.Image}
			use := b.use(t, img.Image, on.Server)
			path, err := b.CachedImage(project, img.Image)
			require.NoError(t, err)
			lose(t, path)
			_, err = b.Create(t.Context(), on)
			require.Equal(t, compute.NotFound, compute.KindOf(err), "%v", err)
			require.NoError(t, b.CacheImage(t.Context(), disk.CacheImageInput{Image: img.Image, Use: use}))
			_, err = b.Create(t.Context(), on)
			require.NoError(t, err)
			require.Contains(t, b.seen(t, compute.ThingCachedImage), use)
		})
	}
}

// H7: a changed copy that somebody is at work with is tried again; only one on which a disk
// lies is refused.
func TestH7AChangedCopyInUseIsTriedAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	img := b.noise(t)
	path := b.cache(t, img, 0)
	held, err := os.Open(path)
	require.NoError(t, err)
	defer held.Close()
	require.NoError(t, syscall.Flock(int(held.Fd()), syscall.LOCK_SH)) // as who makes a disk
	scribble(t, path)
	err = b.CacheImage(t.Context(), disk.CacheImageInput{Image: img})
	require.Equal(t, compute.Unavailable, compute.KindOf(err), "%v", err)
	var again interface{ RetryAfter() time.Duration }
	require.ErrorAs(t, err, &again)
	require.NoError(t, held.Close())
	require.NoError(t, b.CacheImage(t.Context(), disk.CacheImageInput{Image: img}))
	require.Equal(t, 2, b.images.opened)
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
				err := b.again(t, func() error {
					if err := b.CacheImage(t.Context(), disk.CacheImageInput{Image: fixed}); err != nil {
						return err
					}
					_, err := b.Create(t.Context(), in)
					return err
				})
				if compute.Is(err, compute.NotFound) { // it went again
					return
				}
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
