package disk_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/activities/disk"
	"strongroom/compute"
)

// resizing is a disk of a server that is off, with data, and what it is to be.
type resizing struct {
	*testBundle
	disk.ResizeInput
	key string
}

// resized makes a disk, on an image if there is one, and asks for it in a file of its own and larger.
func (b *testBundle) resized(t *testing.T, encrypted bool, img *compute.Image) *resizing {
	t.Helper()
	r := &resizing{testBundle: b}
	r.Server, r.From = newServer(), compute.Disk{ID: newDisk(), Role: compute.RootDisk, SizeMB: 8}
	if img == nil {
		r.From.Role = compute.EphemeralDisk
	}
	if encrypted {
		r.From.Encrypted, r.From.Format = true, compute.FormatLUKS
		r.From.Secret, r.key = b.secret(t)
	}
	_, err := b.Create(t.Context(), disk.CreateInput{Server: r.Server, Disk: r.From, Image: img})
	require.NoError(t, err)
	r.io(t, r.From, "write -P 0x5a 1M 64k")
	r.Disk = r.From
	r.Disk.File, r.Disk.SizeMB = r.From.Name()+".0123abcd", 24
	return r
}

func (r *resizing) path(d compute.Disk) string {
	return filepath.Join(r.InstancesDir, r.Server.String(), d.Name())
}

// io runs commands of qemu-io on a disk, in its own layer alone.
func (r *resizing) io(t *testing.T, d compute.Disk, commands string) {
	t.Helper()
	key := ""
	if r.key != "" {
		key = "key"
	}
	requireIO(t, jsonNode(r.path(d), "qcow2", key, nil), r.key, "", commands)
}

func (r *resizing) requireFiles(t *testing.T, of ...compute.Disk) {
	t.Helper()
	want := []string{r.Server.String()}
	for _, d := range of {
		want = append(want, r.Server.String()+"/"+d.Name())
	}
	require.ElementsMatch(t, want, r.files(t))
}

// EE-29: a disk becomes a larger one in another file, with its data, its key and its image; what it
// is made of stays as it was. Twice at once, or once more, it is one disk.
func TestResizeCopiesAndGrows(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ encrypted, onImage bool }{
		"plain": {false, false}, "encrypted": {true, false}, "plain on an image": {false, true}, "encrypted on an image": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			var img *compute.Image
			if c.onImage {
				img = b.cached(t, "qcow2", qemuImage(t, "qcow2", "5M"))
			}
			r := b.resized(t, c.encrypted, img)
			was, err := os.ReadFile(r.path(r.From))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(r.path(r.Disk)), "."+r.Disk.Name()+".new"), []byte("of a worker that was killed"), 0o600))
			var both sync.WaitGroup
			for range 2 {
				both.Go(func() { require.NoError(t, b.Resize(t.Context(), r.ResizeInput)) })
			}
			both.Wait()
			r.requireFiles(t, r.From, r.Disk)
			r.io(t, r.Disk, "read -P 0x5a 1M 64k;write -P 0x77 20M 64k") // past the end of the old one
			require.NoError(t, b.Resize(t.Context(), r.ResizeInput))
			r.io(t, r.Disk, "read -P 0x5a 1M 64k;read -P 0x77 20M 64k")
			now, err := os.ReadFile(r.path(r.From))
			require.NoError(t, err)
			require.Equal(t, was, now, "bit for bit")

			before, after := info(t, r.path(r.From)), info(t, r.path(r.Disk))
			require.EqualValues(t, 24<<20, after.VirtualSize)
			after.VirtualSize = before.VirtualSize
			require.Equal(t, before, after)
			mode, err := os.Stat(r.path(r.Disk))
			require.NoError(t, err)
			require.EqualValues(t, 0o600, mode.Mode().Perm())
			if c.encrypted {
				require.NotContains(t, strings.Join(b.runner.args, " "), r.key)
				require.Error(t, open(t, r.path(r.Disk), r.key[1:]))
			}
		})
	}
}

// A disk that came from another host grows where it is, once; one that stays as large takes no key.
func TestResizeInPlaceAndWithoutAKey(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.resized(t, true, nil)
	r.Disk.File = r.From.File
	for range 2 {
		require.NoError(t, b.Resize(t.Context(), r.ResizeInput))
	}
	require.EqualValues(t, 24<<20, info(t, r.path(r.Disk)).VirtualSize)
	r.io(t, r.Disk, "read -P 0x5a 1M 64k;write -P 0x77 20M 64k")
	r.requireFiles(t, r.Disk)

	same := b.resized(t, true, nil)
	same.Disk.SizeMB = same.From.SizeMB
	clear(b.keys)
	require.NoError(t, b.Resize(t.Context(), same.ResizeInput))
	same.io(t, same.Disk, "read -P 0x5a 1M 64k")
	require.EqualValues(t, 8<<20, info(t, same.path(same.Disk)).VirtualSize)

	same.From.File = "disk.gone"
	same.Disk = same.From
	require.Equal(t, compute.Corrupt, compute.KindOf(b.Resize(t.Context(), same.ResizeInput)))

	smaller := b.resized(t, false, nil)
	smaller.Disk.SizeMB = 4
	require.NoError(t, b.Resize(t.Context(), smaller.ResizeInput))
	require.EqualValues(t, 8<<20, info(t, smaller.path(smaller.Disk)).VirtualSize, "a disk never shrinks")
}

// What fails leaves the disk as it was, and nothing beside it.
func TestResizeRefuses(t *testing.T) {
	t.Parallel()
	stranger := compute.SecretID{UUID: newDisk().UUID}
	for name, c := range map[string]struct {
		kind    compute.Kind
		prepare func(*testing.T, *resizing)
	}{
		"the disk is missing":      {compute.Corrupt, func(_ *testing.T, r *resizing) { r.From.File = "disk.gone" }},
		"it is not encrypted":      {compute.Corrupt, func(_ *testing.T, r *resizing) { r.Disk.Encrypted = false }},
		"a key that opens nothing": {compute.Corrupt, func(_ *testing.T, r *resizing) { r.keys[*r.Disk.Secret] = "another one" }},
		"a key of another owner":   {compute.Forbidden, func(_ *testing.T, r *resizing) { r.Disk.Secret = &stranger }},
		"no key":                   {compute.Invalid, func(_ *testing.T, r *resizing) { r.Disk.Secret = nil }},
		"a name outside":           {compute.Invalid, func(_ *testing.T, r *resizing) { r.Disk.File = "../" + newServer().String() + "/disk" }},
		"a logical volume":         {compute.Conflict, func(_ *testing.T, r *resizing) { r.From.Format = compute.FormatLUKSv2 }},
		"the host is full": {compute.NoHost, func(_ *testing.T, r *resizing) {
			r.runner.fail = func(c disk.Command) error {
				if c.Name != "qemu-img" || c.Args[0] != "resize" {
					return nil
				}
				return &disk.CommandError{Name: "qemu-img resize", Err: errors.New("exit status 1"), Stderr: "Could not write: No space left on device"}
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := setup(t).resized(t, true, nil)
			from := r.From
			c.prepare(t, r)
			err := r.Resize(t.Context(), r.ResizeInput)
			require.Equal(t, c.kind, compute.KindOf(err), "%v", err)
			require.NotContains(t, err.Error(), r.key)
			r.requireFiles(t, from)
			r.io(t, from, "read -P 0x5a 1M 64k")
		})
	}
}
