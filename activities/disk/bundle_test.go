package disk_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/disk"
	"strongroom/activities/disk/disktest"
	"strongroom/activities/secret"
	"strongroom/compute"
	"strongroom/compute/metadata"
	"strongroom/deploy/guest/vm"
)

// testBundle is a host's disks with an image store and a key manager in memory.
type testBundle struct {
	*disk.Activities
	images *imageStore
	keys   keys
	runner *runner
	guests guests
}

func setup(t *testing.T) *testBundle {
	t.Helper()
	if os.Getenv("CI") == "" {
		if _, err := exec.LookPath("qemu-img"); err != nil {
			t.Skip("needs qemu-img")
		}
	}
	dir := t.TempDir()
	b := &testBundle{images: &imageStore{data: map[compute.ImageID]func() io.Reader{}}, keys: keys{}, runner: &runner{}, guests: guests{}}
	a, err := disk.New(disk.Config{
		InstancesDir: filepath.Join(dir, "instances"),
		CacheDir:     filepath.Join(dir, "cache"),
		CacheHold:    -1,
		Images:       b.images,
		Keys:         b.keys,
		Metadata:     b.guests,
		MemoryDir:    filepath.Join(dir, "memory"),
		Owner:        &disk.Owner{UID: os.Getuid(), GID: os.Getgid()},
		Runner:       b.runner,
	})
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(a.MemoryDir, 0o700))
	if !vm.Inside() {
		disktest.Warm(t, a)
	}
	b.Activities = a
	return b
}

// image puts an image's bytes into the store and gives its record.
func (b *testBundle) image(format string, data []byte) compute.Image {
	sum := sha256.Sum256(data)
	img := compute.Image{ID: compute.ImageID{UUID: uuid.New()}, DiskFormat: format, SizeBytes: int64(len(data)), SHA256: hex.EncodeToString(sum[:])}
	b.images.data[img.ID] = func() io.Reader { return bytes.NewReader(data) }
	return img
}

// project owns the servers of tests.
const project = "11111111111111111111111111111111"

// use has an image on the host for a server's root disk, and gives the use's name.
func (b *testBundle) use(t *testing.T, img compute.Image, server compute.ServerID) string {
	t.Helper()
	use, err := img.CacheUse(project, server, compute.Disk{Role: compute.RootDisk})
	require.NoError(t, err)
	untilFree(t, func() error { return b.CacheImage(t.Context(), disk.CacheImageInput{Image: img, Use: use}) })
	return use
}

// untilFree does something again as long as another is at the same image, as Temporal does.
func untilFree(t *testing.T, do func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if err = do(); !compute.Is(err, compute.Unavailable) {
			break
		}
	}
	require.NoError(t, err)
}

// cached puts an image into the store and into the host's cache.
func (b *testBundle) cached(t *testing.T, format string, data []byte) *compute.Image {
	t.Helper()
	img := b.image(format, data)
	require.NoError(t, b.CacheImage(t.Context(), disk.CacheImageInput{Image: img}))
	return &img
}

// secret makes a passphrase and gives its id and text.
func (b *testBundle) secret(t *testing.T) (*compute.SecretID, string) {
	t.Helper()
	p, err := secret.Generate(compute.DiskPassphraseBytes)
	require.NoError(t, err)
	id := compute.SecretID{UUID: uuid.New()}
	require.NoError(t, p.Use(func(v []byte) error { b.keys[id] = string(v); return nil }))
	return &id, b.keys[id]
}

// files gives what is in the servers' folders, hidden files too.
func (b *testBundle) files(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(b.InstancesDir, "*"))
	require.NoError(t, err)
	for _, pattern := range []string{"*", ".*"} {
		more, err := filepath.Glob(filepath.Join(b.InstancesDir, "*", pattern))
		require.NoError(t, err)
		found = append(found, more...)
	}
	var names []string
	for _, f := range found {
		if f = strings.TrimPrefix(f, b.InstancesDir+"/"); !strings.HasSuffix(f, ".") {
			names = append(names, f)
		}
	}
	return names
}

// qemuImage makes an image file and gives its bytes.
func qemuImage(t *testing.T, format string, args ...string) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "image")
	out, err := exec.Command("qemu-img", append([]string{"create", "-q", "-f", format, file}, args...)...).CombinedOutput()
	require.NoError(t, err, string(out))
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	return b
}

type imageStore struct {
	mu     sync.Mutex
	data   map[compute.ImageID]func() io.Reader
	opened int
}

func (s *imageStore) Open(_ context.Context, _ compute.Credential, id compute.ImageID) (io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened++
	open, ok := s.data[id]
	if !ok {
		return nil, compute.Errorf(compute.NotFound, "no image %s", id)
	}
	r := open()
	if c, ok := r.(io.ReadCloser); ok {
		return c, nil
	}
	return io.NopCloser(r), nil
}

type keys map[compute.SecretID]string

func (k keys) Passphrase(_ context.Context, _ compute.Credential, id compute.SecretID) (*secret.Passphrase, error) {
	text, ok := k[id]
	if !ok {
		return nil, compute.Errorf(compute.Forbidden, "no secret %s for you", id)
	}
	return secret.New([]byte(text)), nil
}

// guests are the servers that the record knows.
type guests map[compute.ServerID]metadata.Server

func (g guests) MetadataAfter(_ context.Context, id compute.ServerID, _ *compute.OperationID) (metadata.Server, error) {
	s, ok := g[id]
	if !ok {
		return s, compute.Errorf(compute.NotFound, "there is no server %s", id)
	}
	return s, nil
}

// runner runs commands for real, keeps their arguments, and fails as told.
type runner struct {
	mu     sync.Mutex
	args   []string
	fail   func(c disk.Command) error // nil, or an error instead of a run
	before func(c *disk.Command)      // nil, or what is done to a command before it runs
	exec   disk.Exec
}

func (r *runner) Run(ctx context.Context, c disk.Command) ([]byte, error) {
	r.mu.Lock()
	r.args = append(r.args, c.Args...)
	fail := r.fail
	r.mu.Unlock()
	if fail != nil {
		if err := fail(c); err != nil {
			return nil, err
		}
	}
	if r.before != nil {
		r.before(&c)
	}
	return r.exec.Run(ctx, c)
}

func newServer() compute.ServerID { return compute.ServerID{UUID: uuid.New()} }
func newDisk() compute.DiskID     { return compute.DiskID{UUID: uuid.New()} }

func ofFile(server compute.ServerID, file string) compute.Removal {
	return compute.Removal{Thing: compute.Thing{Kind: compute.ThingDiskFile, Name: server.String() + "/" + file}}
}

func ofUse(use string) compute.Removal {
	return compute.Removal{Thing: compute.Thing{Kind: compute.ThingCachedImage, Name: use}}
}

// seen gives the names of what the audit sees of a kind.
func (b *testBundle) seen(t *testing.T, kind compute.ThingKind) []string {
	t.Helper()
	var names []string
	got, err := b.Seen(t.Context(), compute.SeenInput{})
	require.NoError(t, err)
	require.Empty(t, got.Next)
	require.Equal(t, []string{compute.LookedAll}, got.Looked)
	for _, s := range got.Seen {
		if s.Kind == kind {
			names = append(names, s.Name)
		}
	}
	return names
}
