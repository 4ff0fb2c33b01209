package disk_test

import (
	"bytes"
	"context"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/activities/disk"
	"strongroom/compute"
)

// cachedImages gives the files of the cache, templates and what is noted of images aside.
func (b *testBundle) cachedImages(t *testing.T) (files []string) {
	t.Helper()
	entries, err := os.ReadDir(b.CacheDir)
	require.NoError(t, err)
	for _, e := range entries {
		if e.Name() != filepath.Dir(disk.BlankTemplate) && !strings.HasPrefix(e.Name(), ".") {
			files = append(files, filepath.Join(b.CacheDir, e.Name()))
		}
	}
	return files
}

func TestCacheImageDownloadsOnce(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"qcow2", "raw"} {
		b := setup(t)
		data := qemuImage(t, format, "3M")
		img := b.image(format, data)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				require.NoError(t, b.again(t, func() error { return b.CacheImage(t.Context(), disk.CacheImageInput{Image: img}) }))
			})
		}
		all.Wait()
		require.NoError(t, b.CacheImage(t.Context(), disk.CacheImageInput{Image: img}))
		require.Equal(t, 1, b.images.opened)
		found := b.cachedImages(t)
		require.Len(t, found, 1, "nothing but the image")
		got, err := os.ReadFile(found[0])
		require.NoError(t, err)
		require.Equal(t, data, got)
	}
}

// Some stores know an image's sha512 only.
func TestCacheImageChecksBySHA512(t *testing.T) {
	t.Parallel()
	b := setup(t)
	data := bytes.Repeat([]byte("image"), 2000)
	img := b.image("raw", data)
	sum := sha512.Sum512(data)
	img.SHA256, img.SHA512 = "", hex.EncodeToString(sum[:])
	require.NoError(t, b.CacheImage(t.Context(), disk.CacheImageInput{Image: img}))
	path, err := b.CachedImage("", img)
	require.NoError(t, err)
	require.Contains(t, path, img.SHA512[:16])
	require.FileExists(t, path)
}

func TestCacheImageBeginsAnewAfterAKill(t *testing.T) {
	t.Parallel()
	b := setup(t)
	img := b.image("raw", bytes.Repeat([]byte("image"), 2000))
	require.NoError(t, b.CacheImage(t.Context(), disk.CacheImageInput{Image: img}))
	whole := b.cachedImages(t)[0]
	require.NoError(t, os.Remove(whole))
	require.NoError(t, os.WriteFile(whole+".part", []byte("what a killed download left, longer than the image is"), 0o600))
	require.NoError(t, b.CacheImage(t.Context(), disk.CacheImageInput{Image: img}))
	require.NoFileExists(t, whole+".part")
	require.FileExists(t, whole)
}

func TestCacheImageRefuses(t *testing.T) {
	t.Parallel()
	good := bytes.Repeat([]byte{7}, 100_000)
	for name, c := range map[string]struct {
		kind   compute.Kind
		format string
		data   []byte
		spoil  func(*compute.Image, *testBundle)
	}{
		"unknown image":      {compute.NotFound, "raw", good, func(i *compute.Image, b *testBundle) { delete(b.images.data, i.ID) }},
		"no checksum at all": {compute.Invalid, "raw", good, func(i *compute.Image, _ *testBundle) { i.SHA256, i.SHA512 = "", "beef" }},
		"wrong sha512":       {compute.Corrupt, "raw", good, func(i *compute.Image, _ *testBundle) { i.SHA256, i.SHA512 = "", strings.Repeat("0", 128) }},
		"no checksum":        {compute.Invalid, "raw", good, func(i *compute.Image, _ *testBundle) { i.SHA256 = "" }},
		"format":             {compute.Invalid, "vmdk", good, nil},
		"wrong checksum":     {compute.Corrupt, "raw", good, func(i *compute.Image, _ *testBundle) { i.SHA256 = "00" + i.SHA256[2:] }},
		"too long":           {compute.Corrupt, "raw", good, func(i *compute.Image, _ *testBundle) { i.SizeBytes-- }},
		"too short":          {compute.Unavailable, "raw", good, func(i *compute.Image, _ *testBundle) { i.SizeBytes++ }},
		"larger than host":   {compute.NoHost, "raw", good, func(i *compute.Image, _ *testBundle) { i.SizeBytes = 1 << 60 }},
		"no qcow2":           {compute.Corrupt, "qcow2", good, nil},
		"backing file":       {compute.Corrupt, "qcow2", qemuImage(t, "qcow2", "-u", "-b", "/etc/passwd", "-F", "raw", "1M"), nil},
		"data file":          {compute.Corrupt, "qcow2", qemuImage(t, "qcow2", "-o", "data_file="+filepath.Join(t.TempDir(), "d"), "1M"), nil},
		"broken download": {compute.Unavailable, "raw", good, func(i *compute.Image, b *testBundle) {
			b.images.data[i.ID] = func() io.Reader {
				return io.MultiReader(bytes.NewReader(good[:50_000]), iotest.ErrReader(errors.New("reset")))
			}
		}},
		"store's own check": {compute.Corrupt, "raw", good, func(i *compute.Image, b *testBundle) {
			b.images.data[i.ID] = func() io.Reader { return iotest.ErrReader(compute.Errorf(compute.Corrupt, "bad blob")) }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			img := b.image(c.format, c.data)
			if c.spoil != nil {
				c.spoil(&img, b)
			}
			err := b.CacheImage(t.Context(), disk.CacheImageInput{Image: img})
			require.Equal(t, c.kind, compute.KindOf(err), "%v", err)
			require.Empty(t, b.cachedImages(t))
		})
	}
}

func TestCacheImageRawIsNeverGuessed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	// A raw image may well begin like a qcow2 that names a file of the host.
	data := qemuImage(t, "qcow2", "-u", "-b", "/etc/passwd", "-F", "raw", "1M")
	data = append(data, make([]byte, -len(data)&511)...)
	img := b.cached(t, "raw", data)
	server := newServer()
	_, err := b.Create(t.Context(), disk.CreateInput{Server: server, Image: img, Disk: compute.Disk{ID: newDisk(), Role: compute.RootDisk}})
	require.NoError(t, err)
	out, err := disk.Exec{}.Run(t.Context(), disk.Command{Name: "qemu-img", Args: []string{
		"map", "--output=json", filepath.Join(b.InstancesDir, server.String(), "disk")}})
	require.NoError(t, err)
	require.NotContains(t, string(out), "passwd")
}

func TestCacheImageReturnsOnCancel(t *testing.T) {
	t.Parallel()
	b := setup(t)
	img := b.image("raw", make([]byte, 1000))
	hanging, _ := io.Pipe()
	b.images.data[img.ID] = func() io.Reader { return hanging }
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	err := b.CacheImage(ctx, disk.CacheImageInput{Image: img})
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, b.cachedImages(t))
}
