// Package imagetest is the suite that every adapter of image.Library passes.
package imagetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/image"
	"strongroom/compute"
)

// Harness is an adapter ready to be tried.
type Harness struct {
	Library image.Library
	Again   image.Library      // a second client of the same library, as another process would have
	Owner   compute.Credential // may make images in its project
	Other   compute.Credential // of another project
	// Damage changes a byte of an image's stored data; nil where a test cannot.
	Damage func(t *testing.T, img compute.Image)
	// Foreign makes an image of the owner's, without data, of formats that Create refuses.
	Foreign func(t *testing.T, disk, container string) compute.ImageID
}

// bench is one test's harness and words.
type bench struct {
	*testing.T
	Harness
	ctx context.Context
}

// Run runs the suite. open is called once per test and cleans up after itself.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	// This one measures memory, so it runs before the others and alone.
	t.Run("large data is streamed", func(t *testing.T) {
		largeData(bench{T: t, Harness: open(t), ctx: t.Context()})
	})
	for name, test := range map[string]func(b bench){
		"create and get":                   createAndGet,
		"create is idempotent by id":       createTwice,
		"create at once makes one":         createAtOnce,
		"create refuses nonsense":          createNonsense,
		"upload makes it active":           uploadActivates,
		"qcow2 has its virtual size":       uploadQcow2,
		"a second upload is refused":       uploadTwice,
		"one of two uploads at once wins":  uploadAtOnce,
		"a broken upload leaves it queued": uploadBroken,
		"data that is not what it says":    uploadMismatch,
		"qcow2 that refers elsewhere":      uploadHostile,
		"open checks the sha256":           openDamaged,
		"open before data":                 openQueued,
		"who may see what":                 visibility,
		"update":                           update,
		"update of any format":             updateForeign,
		"properties change one by one":     changeProperties,
		"another project is refused":       otherProject,
		"protected":                        protected,
		"list in parts misses nothing":     listInParts,
		"list gives what is asked for":     listAsked,
		"list gives the newest first":      listNewest,
		"list looks for names":             listNamed,
		"delete":                           deleteImage,
		"delete during an upload":          deleteDuringUpload,
		"readers outlive a delete":         deleteWhileReading,
		"images that name a secret":        naming,
		"a look at images":                 look,
		"activity: describe":               describeActivity,
		"activity: remove":                 removeActivity,
		"activity: old backups":            oldBackupsActivity,
		"activity: seen":                   seenActivity,
		"activity: upload":                 uploadActivity,
		"activity: upload after a break":   uploadActivityAgain,
		"activity: a cancel too late":      uploadActivityTooLate,
		"activity: upload refuses":         uploadActivityRefuses,
		"activity: upload reports":         uploadActivityReports,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(bench{T: t, Harness: open(t), ctx: t.Context()})
		})
	}
}

func (b bench) image(format, visibility string) compute.Image {
	return compute.Image{
		ID: compute.ImageID{UUID: uuid.New()}, Name: "an image", DiskFormat: format, ContainerFormat: "bare",
		Visibility: visibility, MinDiskGB: 1, MinRAMMB: 64, Tags: []string{"tag"},
		Properties: map[string]string{"hw_tpm_version": "2.0", "os_distro": "debian"},
	}
}

func (b bench) create(format, visibility string) compute.Image {
	b.Helper()
	img, err := b.Library.Create(b.ctx, b.Owner, b.image(format, visibility))
	require.NoError(b, err)
	b.Cleanup(func() {
		err := b.Library.Delete(context.Background(), b.Owner, img.ID)
		if err != nil {
			require.Equal(b, compute.NotFound, compute.KindOf(err), "%v", err)
		}
	})
	return img
}

// active gives an image with these bytes.
func (b bench) active(visibility string, data []byte) compute.Image {
	b.Helper()
	img := b.create("raw", visibility)
	require.NoError(b, b.Library.Upload(b.ctx, b.Owner, img.ID, bytes.NewReader(data)))
	return b.get(b.Owner, img.ID)
}

func (b bench) get(cred compute.Credential, id compute.ImageID) compute.Image {
	b.Helper()
	img, err := b.Again.Get(b.ctx, cred, id)
	require.NoError(b, err)
	return img
}

func (b bench) read(cred compute.Credential, id compute.ImageID) []byte {
	b.Helper()
	r, err := b.Library.Open(b.ctx, cred, id)
	require.NoError(b, err)
	defer func() { require.NoError(b, r.Close()) }()
	data, err := io.ReadAll(r)
	require.NoError(b, err)
	return data
}

func (b bench) requireKind(kind compute.Kind, err error) {
	b.Helper()
	require.Equal(b, kind, compute.KindOf(err), "%v", err)
}

func (b bench) requireQueued(id compute.ImageID) {
	b.Helper()
	// A store may see only after a moment that nobody sends any more.
	var img compute.Image
	require.Eventually(b, func() bool {
		img = b.get(b.Owner, id)
		return img.Status != "saving"
	}, time.Minute, 50*time.Millisecond)
	require.Equal(b, image.StatusQueued, img.Status)
	require.Zero(b, img.SizeBytes)
	require.Empty(b, img.SHA256)
	require.Empty(b, img.SHA512)
	_, err := b.Library.Open(b.ctx, b.Owner, id)
	b.requireKind(compute.Conflict, err)
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// qemuImg runs the real qemu-img in a folder of the test and gives a file's bytes.
func qemuImg(t *testing.T, file string, args ...string) []byte {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command("qemu-img", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	data, err := os.ReadFile(filepath.Join(dir, file))
	require.NoError(t, err)
	return data
}
