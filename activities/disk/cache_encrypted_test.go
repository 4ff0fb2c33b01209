package disk_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/activities/disk"
	"strongroom/compute"
)

// cacheFiles gives all files of encrypted images, by their path in the cache.
func (b *testBundle) cacheFiles(t *testing.T) []string {
	t.Helper()
	root := filepath.Join(b.CacheDir, "encrypted")
	var out []string
	require.NoError(t, filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if path != root && !strings.HasSuffix(path, ".checked") {
			out = append(out, strings.TrimPrefix(path, root+"/"))
		}
		return err
	}))
	return out
}

// EE-12: a project's servers share one copy, as it came; it goes with the last of
// them, and with it all that was made beside it.
func TestAnEncryptedImageIsKeptWhileItIsUsed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	img := b.baseImage(t, "qcow2+luks")
	uses := b.seen(t, compute.ThingCachedImage)
	first, second := newServer(), newServer()
	uses = append(uses, b.use(t, img.Image, first), b.use(t, img.Image, second))
	require.Equal(t, 1, b.images.opened)
	slices.Sort(uses)
	require.Equal(t, uses, b.seen(t, compute.ThingCachedImage))
	stored, err := os.ReadFile(img.file)
	require.NoError(t, err)
	require.Contains(t, img.file, "/"+project+"/")
	require.NotContains(t, string(stored), strings.Repeat("\x11", 512), "as it came")

	d := compute.Disk{ID: newDisk(), Role: compute.RootDisk, SizeMB: diskMiB, Encrypted: true, Format: compute.FormatLUKS, BackingSecret: img.secret}
	d.Secret, _ = b.secret(t)
	_, err = b.Create(t.Context(), disk.CreateInput{Server: first, Project: project, Disk: d, Image: &img.Image})
	require.NoError(t, err)
	templates, err := filepath.Glob(filepath.Join(b.CacheDir, "templates", "*.qcow2"))
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(b.CacheDir, disk.BlankTemplate)}, templates, "what is made for the image lies beside it")

	for i, use := range uses {
		require.FileExists(t, img.file)
		for range 2 {
			require.NoError(t, b.Remove(t.Context(), ofUse(use)))
		}
		require.Len(t, b.seen(t, compute.ThingCachedImage), len(uses)-i-1)
	}
	require.Empty(t, b.cacheFiles(t))
	require.NoError(t, b.Remove(t.Context(), ofUse(uses[0])))
}

// Uses that begin and end at once never lose the copy under one that lasts.
func TestUsesThatComeAndGoAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	img := b.baseImage(t, "luks")
	begun := b.seen(t, compute.ThingCachedImage)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 5 {
				use := b.use(t, img.Image, newServer())
				require.FileExists(t, img.file)
				untilFree(t, func() error { return b.Remove(t.Context(), ofUse(use)) })
			}
		})
	}
	all.Go(func() { untilFree(t, func() error { return b.Remove(t.Context(), ofUse(begun[0])) }) })
	all.Wait()
	require.Empty(t, b.cacheFiles(t))
}

// Another project does not get the copy: it downloads its own, if the store lets it.
func TestACopyIsOneProjects(t *testing.T) {
	t.Parallel()
	b := setup(t)
	img := b.baseImage(t, "luks")
	delete(b.images.data, img.ID) // which the store denies to the other project
	use, err := img.CacheUse("other", newServer(), compute.Disk{Role: compute.RootDisk})
	require.NoError(t, err)
	err = b.CacheImage(t.Context(), disk.CacheImageInput{Image: img.Image, Use: use})
	require.Equal(t, compute.NotFound, compute.KindOf(err), "%v", err)
	require.Contains(t, b.seen(t, compute.ThingCachedImage), use, "its undo ends the use")
	require.NoError(t, b.Remove(t.Context(), ofUse(use)))
	require.FileExists(t, img.file)
	require.Len(t, b.seen(t, compute.ThingCachedImage), 1)
}

func TestReleaseGoesOnAfterAKill(t *testing.T) {
	t.Parallel()
	b := setup(t)
	img := b.baseImage(t, "luks")
	use := b.seen(t, compute.ThingCachedImage)[0]
	dir := filepath.Dir(img.file)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "image.part"), []byte("of a download that was killed"), 0o600))
	mark := filepath.Join(b.CacheDir, "encrypted", use)
	require.NoError(t, os.Remove(mark)) // the last one that a release removes before the folder
	require.Equal(t, []string{strings.TrimSuffix(use, "/"+filepath.Base(use))}, b.seen(t, compute.ThingCachedImage), "the audit sees it")
	require.NoError(t, b.Remove(t.Context(), ofUse(use)))
	require.Empty(t, b.cacheFiles(t))
}

func TestCacheImageRefusesEncrypted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	luks, qcow2 := b.baseImage(t, "luks"), b.baseImage(t, "qcow2+luks")
	data := func(i *baseImage) []byte {
		text, err := io.ReadAll(b.images.data[i.ID]())
		require.NoError(t, err)
		return text
	}
	// The iterations of the first slot of a LUKS header (On-Disk Format 1.2.3).
	greedy := bytes.Clone(data(luks))
	copy(greedy[212:], []byte{0x7f, 0xff, 0xff, 0xff})
	for name, c := range map[string]struct {
		kind       compute.Kind
		format     string
		data       []byte
		encryption string // os_encrypt_format
		use        string // "" for the right one
	}{
		"for no use":          {compute.Invalid, "raw", data(luks), "luks", "none"},
		"for another's use":   {compute.Invalid, "raw", data(luks), "luks", b.seen(t, compute.ThingCachedImage)[0]},
		"of LUKS version 2":   {compute.Invalid, "raw", data(luks), "luksv2", ""},
		"a plain raw":         {compute.Corrupt, "raw", bytes.Repeat([]byte{7}, 1<<16), "luks", ""},
		"a plain qcow2":       {compute.Corrupt, "qcow2", qemuImage(t, "qcow2", "1M"), "luks", ""},
		"no luks":             {compute.Corrupt, "luks", data(qcow2), "luks", ""},
		"too many iterations": {compute.Corrupt, "luks", greedy, "luks", ""},
		"backing file":        {compute.Corrupt, "qcow2", qemuImage(t, "qcow2", "-u", "-b", "/etc/passwd", "-F", "raw", "1M"), "luks", ""},
	} {
		img := b.image(c.format, c.data)
		server := newServer()
		img.Properties = map[string]string{"os_encrypt_key_id": luks.secret.String(), "os_encrypt_format": c.encryption}
		use, _ := img.CacheUse(project, server, compute.Disk{Role: compute.RootDisk})
		in := disk.CacheImageInput{Image: img, Use: use}
		if c.use != "" {
			in.Use = c.use
		}
		before := b.cacheFiles(t)
		err := b.CacheImage(t.Context(), in)
		require.Equal(t, c.kind, compute.KindOf(err), "%s: %v", name, err)
		if c.kind == compute.Corrupt {
			require.NoError(t, b.Remove(t.Context(), ofUse(use)))
		}
		require.Equal(t, before, b.cacheFiles(t), name)
	}
	for _, use := range []string{"", "../../etc/passwd", project + "/x/y", "../" + b.seen(t, compute.ThingCachedImage)[0]} {
		require.True(t, compute.Is(b.Remove(t.Context(), ofUse(use)), compute.Invalid), use)
	}
}

// EE-11, EE-12: the root disk opens with its own secret and with the copy of the
// image's; no other disk has anything under it.
func TestCreateOnAnEncryptedImage(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, kind := range []string{"luks", "qcow2+luks"} {
		img := b.baseImage(t, kind)
		root := func(change func(*compute.Disk)) disk.CreateInput {
			copied := compute.SecretID{UUID: newDisk().UUID}
			b.keys[copied] = img.key
			d := compute.Disk{ID: newDisk(), Role: compute.RootDisk, Encrypted: true, Format: compute.FormatLUKS, BackingSecret: &copied}
			d.Secret, _ = b.secret(t)
			change(&d)
			return disk.CreateInput{Server: newServer(), Project: project, Disk: d, Image: &img.Image}
		}
		in := root(func(*compute.Disk) {})
		for range 2 {
			_, err := b.Create(t.Context(), in)
			require.NoError(t, err, kind)
		}
		file := filepath.Join(b.InstancesDir, in.Server.String(), "disk")
		require.EqualValues(t, 3<<20, info(t, file).VirtualSize, "of the image, without its header")
		requireIO(t, jsonNode(file, "qcow2", "key", img.node("under")), b.keys[*in.Disk.Secret], img.key, "read -P 0x11 0 512")

		stranger := compute.SecretID{UUID: newDisk().UUID}
		wrong, _ := b.secret(t)
		for name, c := range map[string]struct {
			kind   compute.Kind
			change func(*compute.Disk)
		}{
			"another passphrase":  {compute.Corrupt, func(d *compute.Disk) { d.BackingSecret = wrong }},
			"no secret for it":    {compute.Invalid, func(d *compute.Disk) { d.BackingSecret = nil }},
			"another's secret":    {compute.Forbidden, func(d *compute.Disk) { d.BackingSecret = &stranger }},
			"a disk that is bare": {compute.Invalid, func(d *compute.Disk) { d.Encrypted, d.Secret, d.Format = false, nil, "" }},
			"smaller than it":     {compute.Invalid, func(d *compute.Disk) { d.SizeMB = 2 }},
			"swap":                {compute.Invalid, func(d *compute.Disk) { d.Role, d.SizeMB = compute.SwapDisk, 1 }},
		} {
			in := root(c.change)
			_, err := b.Create(t.Context(), in)
			require.Equal(t, c.kind, compute.KindOf(err), "%s %s: %v", kind, name, err)
			require.NoFileExists(t, filepath.Join(b.InstancesDir, in.Server.String(), in.Disk.Name()), name)
		}
	}
}

// A full host or a download that breaks leaves the note of the use alone, which the
// undo takes away.
func TestAnEncryptedImageThatDoesNotCome(t *testing.T) {
	t.Parallel()
	b := setup(t)
	img := b.baseImage(t, "luks")
	require.NoError(t, b.Remove(t.Context(), ofUse(b.seen(t, compute.ThingCachedImage)[0])))
	b.images.data[img.ID] = func() io.Reader { return &broken{} }
	use, err := img.CacheUse(project, newServer(), compute.Disk{Role: compute.RootDisk})
	require.NoError(t, err)
	err = b.CacheImage(context.Background(), disk.CacheImageInput{Image: img.Image, Use: use})
	require.Equal(t, compute.Unavailable, compute.KindOf(err), "%v", err)
	require.NoFileExists(t, img.file)
	require.Equal(t, []string{use}, b.seen(t, compute.ThingCachedImage))
	require.NoError(t, b.Remove(t.Context(), ofUse(use)))
	require.Empty(t, b.cacheFiles(t))
}

type broken struct{}

func (*broken) Read([]byte) (int, error) { return 0, errors.New("reset") }
