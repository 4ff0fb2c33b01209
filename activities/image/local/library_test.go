package local_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/image"
	"strongroom/activities/image/imagetest"
	"strongroom/activities/image/local"
	"strongroom/activities/imagefile/hostile"
	"strongroom/compute"
)

var (
	owner = compute.Credential{ProjectID: "11111111111111111111111111111111", UserID: "u1"}
	other = compute.Credential{ProjectID: "22222222222222222222222222222222", UserID: "u2"}
)

// Not parallel: the suite measures memory.
func TestConformance(t *testing.T) {
	imagetest.Run(t, func(t *testing.T) imagetest.Harness {
		b := setup(t)
		return imagetest.Harness{Library: b.Library, Again: b.reopen(t), Owner: owner, Other: other, Damage: b.damage, Foreign: b.foreign}
	})
}

type bench struct {
	*local.Library
	cfg local.Config
}

func setup(t *testing.T) bench {
	t.Helper()
	b := bench{cfg: local.Config{Dir: filepath.Join(t.TempDir(), "images")}}
	b.Library = b.reopen(t)
	return b
}

func (b bench) reopen(t *testing.T) *local.Library {
	t.Helper()
	l, err := local.Open(b.cfg)
	require.NoError(t, err)
	return l
}

func (b bench) damage(t *testing.T, img compute.Image) {
	t.Helper()
	path := filepath.Join(b.cfg.Dir, img.ID.String()+"."+img.SHA256)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	data[len(data)/2] ^= 1
	require.NoError(t, os.WriteFile(path, data, 0o600))
}

// foreign writes a record that no Create writes.
func (b bench) foreign(t *testing.T, disk, container string) compute.ImageID {
	t.Helper()
	img := b.queued(t, "raw")
	img.DiskFormat, img.ContainerFormat = disk, container
	data, err := json.Marshal(img)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(b.record(img), data, 0o600))
	return img.ID
}

// record is the file of an image's record.
func (b bench) record(img compute.Image) string {
	return filepath.Join(b.cfg.Dir, img.ID.String()+".json")
}

func (b bench) queued(t *testing.T, format string) compute.Image {
	t.Helper()
	img, err := b.Create(t.Context(), owner, compute.Image{Name: "x", DiskFormat: format, ContainerFormat: "bare"})
	require.NoError(t, err)
	return img
}

// files lists what lies in the folder beside its lock.
func (b bench) files(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(b.cfg.Dir)
	require.NoError(t, err)
	out := []string{}
	for _, e := range entries {
		if e.Name() != ".lock" {
			out = append(out, e.Name())
		}
	}
	return out
}

func TestABrokenUploadLeavesNoFile(t *testing.T) {
	t.Parallel()
	b := setup(t)
	img := b.queued(t, "qcow2")
	for name, data := range map[string]io.Reader{
		"broken": io.MultiReader(bytes.NewReader(make([]byte, 1000)), iotest.ErrReader(errors.New("gone"))),
		"wrong":  bytes.NewReader(make([]byte, 1000)),
	} {
		require.Error(t, b.Upload(t.Context(), owner, img.ID, data), name)
		require.Equal(t, []string{img.ID.String() + ".json"}, b.files(t), name)
	}
}

func TestDeleteLeavesNoFile(t *testing.T) {
	t.Parallel()
	b := setup(t)
	img := b.queued(t, "raw")
	require.NoError(t, b.Upload(t.Context(), owner, img.ID, bytes.NewReader([]byte("x"))))
	require.Len(t, b.files(t), 2)
	require.NoError(t, b.Delete(t.Context(), owner, img.ID))
	require.Empty(t, b.files(t))
}

func TestImagesOutliveTheProcess(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.cfg.Now = func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC) }
	b.Library = b.reopen(t)
	img := b.queued(t, "raw")
	require.NoError(t, b.Upload(t.Context(), owner, img.ID, bytes.NewReader([]byte("x"))))
	again, err := b.reopen(t).Get(t.Context(), owner, img.ID)
	require.NoError(t, err)
	require.Equal(t, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), again.UpdatedAt)
	require.Equal(t, image.StatusActive, again.Status)
	require.Equal(t, image.Shared, again.Visibility)
}

// What a process that died may leave: data that was kept and whose record was
// not written, data whose record was removed first, a draft.
func TestWhatACrashLeftIsCleared(t *testing.T) {
	t.Parallel()
	b := setup(t)
	queued, active := b.queued(t, "raw"), b.queued(t, "raw")
	require.NoError(t, b.Upload(t.Context(), owner, active.ID, bytes.NewReader([]byte("x"))))
	whole := b.files(t)
	for _, name := range []string{queued.ID.String() + ".00ff", uuid.NewString() + ".00ff", active.ID.String() + ".00ff", ".new-1"} {
		require.NoError(t, os.WriteFile(filepath.Join(b.cfg.Dir, name), []byte("left"), 0o600))
	}
	require.Len(t, b.files(t), len(whole)+4)
	b.reopen(t)
	require.Equal(t, whole, b.files(t))
}

// A list with the newest first reads the records that it gives, and of the others those alone that were written since it was asked last.
func TestTheNewestAreRead(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	b.cfg.Now = func() time.Time { return now }
	b.Library = b.reopen(t)
	older := b.queued(t, "raw")
	now = now.Add(time.Hour)
	newer := b.queued(t, "raw")
	newest := func() image.ListResult {
		got, err := b.List(t.Context(), owner, image.ListInput{Newest: true, Limit: 1})
		require.NoError(t, err)
		require.Len(t, got.Images, 1)
		require.Equal(t, newer.ID, got.Images[0].ID)
		return got
	}
	first := newest()
	require.NotEmpty(t, first.Next)
	require.Equal(t, newer.ID, first.Last)

	info, err := os.Stat(b.record(older))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(b.record(older), []byte("{"), 0o600))
	require.NoError(t, os.Chtimes(b.record(older), info.ModTime(), info.ModTime()))
	require.Equal(t, first, newest(), "it is not read again")
	later := info.ModTime().Add(time.Second)
	require.NoError(t, os.Chtimes(b.record(older), later, later))
	require.Empty(t, newest().Next, "it is read, and damaged")
}

// Of several who change properties at once none takes another's away.
func TestPropertiesAreChangedAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	img, processes := b.queued(t, "raw"), []*local.Library{b.Library, b.reopen(t)}
	var all sync.WaitGroup
	want, errs := map[string]string{}, make([]error, 20)
	for i := range errs {
		name := strconv.Itoa(i)
		want[name] = "set"
		all.Go(func() {
			_, errs[i] = processes[i%2].ChangeProperties(t.Context(), owner, img.ID, map[string]string{name: "set"}, nil)
		})
	}
	all.Wait()
	require.NoError(t, errors.Join(errs...))
	now, err := b.Get(t.Context(), owner, img.ID)
	require.NoError(t, err)
	require.Equal(t, want, now.Properties)
}

func TestDamageIsSeen(t *testing.T) {
	t.Parallel()
	b := setup(t)
	img := b.queued(t, "raw")
	require.NoError(t, b.Upload(t.Context(), owner, img.ID, bytes.NewReader([]byte("x"))))
	img, err := b.Get(t.Context(), owner, img.ID)
	require.NoError(t, err)

	require.NoError(t, os.Remove(filepath.Join(b.cfg.Dir, img.ID.String()+"."+img.SHA256)))
	_, err = b.Open(t.Context(), owner, img.ID)
	require.Equal(t, compute.Corrupt, compute.KindOf(err))

	require.NoError(t, os.WriteFile(filepath.Join(b.cfg.Dir, img.ID.String()+".json"), []byte("{"), 0o600))
	_, err = b.Get(t.Context(), owner, img.ID)
	require.Equal(t, compute.Corrupt, compute.KindOf(err))
	all, err := b.List(t.Context(), owner, image.ListInput{})
	require.NoError(t, err, "one damaged record does not hide the others")
	require.Empty(t, all.Images)
}

func TestWhatQemuImgMayDo(t *testing.T) {
	t.Parallel()
	b := setup(t)
	qcow2 := append([]byte("QFI\xfb\x00\x00\x00\x02"), make([]byte, 1000)...)
	qcow2[23] = 16 // bits of a cluster
	for program, kind := range map[string]compute.Kind{
		"/bin/false": compute.Invalid, // as a qemu-img that refuses the file
		"/bin/true":  compute.Invalid, // one that says nothing
		"/bin/yes":   compute.Invalid, // one that never stops saying
		"/no/such":   compute.Unavailable,
	} {
		b.cfg.QemuImg = program
		l := b.reopen(t)
		img := b.queued(t, "qcow2")
		err := l.Upload(t.Context(), owner, img.ID, bytes.NewReader(qcow2))
		require.Equal(t, kind, compute.KindOf(err), "%s: %v", program, err)
	}
}

// H5, M3: what a tenant's image says of itself is found before it becomes one.
func TestM3HostileUploadsAreRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, f := range hostile.Files("/etc/passwd") {
		if f.Format == "vmdk" {
			continue // no image of this library
		}
		img := b.queued(t, f.Format)
		err := b.Upload(t.Context(), owner, img.ID, bytes.NewReader(f.Data))
		require.Equal(t, compute.Invalid, compute.KindOf(err), "%s: %v", f.Name, err)
	}
	for _, f := range hostile.Sound() {
		img := b.queued(t, f.Format)
		require.NoError(t, b.Upload(t.Context(), owner, img.ID, bytes.NewReader(f.Data)), f.Name)
	}
}
