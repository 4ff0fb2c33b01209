package agent_test

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/disk"
	"strongroom/compute"
)

// refusing is an image store that gives nothing to whoever moves the server.
type refusing struct{}

func (refusing) Open(_ context.Context, _ compute.Credential, id compute.ImageID) (io.ReadCloser, error) {
	return nil, compute.Errorf(compute.Forbidden, "image %s is not yours", id)
}

// anImage gives an image of the store, plain or encrypted, and the use of it that is asked for.
func anImage(t *testing.T, server compute.ServerID, encrypted bool) (img compute.Image, use string) {
	t.Helper()
	id := compute.ImageID{UUID: uuid.New()}
	sum := sha256.Sum256(imageData(id))
	img = compute.Image{ID: id, DiskFormat: "raw", SizeBytes: mib, SHA256: hex.EncodeToString(sum[:])}
	if !encrypted {
		return img, ""
	}
	img.Properties = map[string]string{"os_encrypt_key_id": uuid.NewString()}
	use, err := img.CacheUse("p1", server, compute.Disk{Role: compute.RootDisk})
	require.NoError(t, err)
	return img, use
}

// EE-29: where the image store gives an image to nobody who moves the server, an operator's drain say,
// the host that the server leaves gives its copy.
func TestAnImageOfTheFormerHost(t *testing.T) {
	t.Parallel()
	a := authority(t)
	server := compute.ServerID{UUID: uuid.New()}
	img, _ := anImage(t, server, false)
	from, to := newNode(t, a, "from"), newNode(t, a, "to")
	require.NoError(t, from.disks.CacheImage(t.Context(), disk.CacheImageInput{Image: img}))
	to.disks.Images = refusing{}
	in := disk.CacheImageInput{Image: img}
	former := &disk.FormerHost{Server: server, Operation: "req-1", Agent: from.Agent}

	require.Equal(t, compute.Forbidden, compute.KindOf(to.disks.CacheImage(t.Context(), in)), "it leaves no host")
	path, err := to.disks.CachedImage("", img)
	require.NoError(t, err)
	require.NoFileExists(t, path)

	in.Former = former
	from.isOff = func() error { return compute.Errorf(compute.Conflict, "the guest runs") } // no guest writes to an image
	from.granted = func(tr compute.Transfer, _ *x509.Certificate) error {
		name, err := img.CacheName("")
		require.NoError(t, err)
		require.Equal(t, compute.Transfer{Server: server, Operation: "req-1", Kind: compute.ThingCachedImage, Name: name}, tr)
		return nil
	}
	require.NoError(t, to.disks.CacheImage(t.Context(), in))
	same(t, path, func() string { p, _ := from.disks.CachedImage("", img); return p }())
	sent := from.wire.sent.Load()
	require.NoError(t, to.disks.CacheImage(t.Context(), in))
	require.Equal(t, sent, from.wire.sent.Load(), "it was there")
}

// What the other host refuses, has not or sends wrongly leaves nothing, and the image store's answer is
// what counts.
func TestNoImageOfTheFormerHost(t *testing.T) {
	t.Parallel()
	a := authority(t)
	server := compute.ServerID{UUID: uuid.New()}
	from, to := newNode(t, a, "from"), newNode(t, a, "to")
	to.disks.Images = refusing{}
	img, _ := anImage(t, server, false)
	in := disk.CacheImageInput{Image: img, Former: &disk.FormerHost{Server: server, Operation: "req-1", Agent: from.Agent}}
	path, err := to.disks.CachedImage("", img)
	require.NoError(t, err)

	require.Equal(t, compute.Forbidden, compute.KindOf(to.disks.CacheImage(t.Context(), in)), "it has none")
	require.NoError(t, from.disks.CacheImage(t.Context(), disk.CacheImageInput{Image: img}))
	from.granted = func(compute.Transfer, *x509.Certificate) error { return compute.Errorf(compute.Forbidden, "no ticket") }
	err = to.disks.CacheImage(t.Context(), in)
	require.Equal(t, compute.Forbidden, compute.KindOf(err))
	require.ErrorContains(t, err, "is not yours")
	from.granted = nil

	theirs, err := from.disks.CachedImage("", img)
	require.NoError(t, err)
	require.NoError(t, os.Chmod(theirs, 0o600))
	f, err := os.OpenFile(theirs, os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("not what it was"), 100)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.Equal(t, compute.Corrupt, compute.KindOf(to.disks.CacheImage(t.Context(), in)), "its bytes are others")
	require.NoFileExists(t, path)
	require.NoFileExists(t, path+".part")
}

// A host sends images of its cache and nothing else.
func TestNamesOfImages(t *testing.T) {
	t.Parallel()
	a := authority(t)
	server := compute.ServerID{UUID: uuid.New()}
	n := newNode(t, a, "host")
	img, _ := anImage(t, server, false)
	require.NoError(t, n.disks.CacheImage(t.Context(), disk.CacheImageInput{Image: img}))
	name, err := img.CacheName("")
	require.NoError(t, err)
	path, err := n.disks.CachedImage("", img)
	require.NoError(t, err)
	linked, _ := anImage(t, server, false)
	link, err := linked.CacheName("")
	require.NoError(t, err)
	require.NoError(t, os.Symlink("/etc/passwd", n.disks.CacheDir+"/"+link))
	for asked, kind := range map[string]compute.Kind{
		"": compute.Invalid, "../" + name: compute.Invalid, name + ".part": compute.Invalid, path: compute.Invalid, "p1/../" + name: compute.Invalid,
		"blank.qcow2": compute.Invalid, "p1/" + name: compute.NotFound, link: compute.Unavailable,
	} {
		_, err := n.disks.OpenImageToSend(asked)
		require.Equal(t, kind, compute.KindOf(err), "%q: %v", asked, err)
	}
	f, err := n.disks.OpenImageToSend(name)
	require.NoError(t, err)
	require.NoError(t, f.Close())

	secured, use := anImage(t, server, true)
	kept := n.disks.CacheDir + "/encrypted/" + strings.TrimSuffix(use, "/"+server.String()+".disk")
	require.NoError(t, os.MkdirAll(kept, 0o700))
	require.NoError(t, os.WriteFile(kept+"/image", []byte("encrypted"), 0o600))
	name, err = secured.CacheName("p1")
	require.NoError(t, err)
	f, err = n.disks.OpenImageToSend(name)
	require.NoError(t, err)
	require.Equal(t, kept+"/image", f.Name())
	require.NoError(t, f.Close())
}
