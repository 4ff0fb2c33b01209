package local_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"strongroom/activities/key"
	"strongroom/activities/key/local"
	"strongroom/compute"
)

// Every byte of a secret's file is either sealed or bound to the seal.
func TestAnyChangedByteIsFound(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.make(t, owner, "fragile")
	file := b.file(t, id)
	whole, err := os.ReadFile(file)
	require.NoError(t, err)
	for i := range whole {
		damaged := bytes.Clone(whole)
		damaged[i] ^= 0x02
		require.NoError(t, os.WriteFile(file, damaged, 0o600))
		_, err := b.Passphrase(t.Context(), owner, id)
		require.Equal(t, compute.Corrupt, compute.KindOf(err), "byte %d: %v", i, err)
	}
}

func TestCutFilesAreCorruptAndDeletable(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.make(t, owner, "cut")
	require.NoError(t, os.Truncate(b.file(t, id), 0))

	_, err := b.Passphrase(t.Context(), owner, id)
	require.Equal(t, compute.Corrupt, compute.KindOf(err))
	_, err = b.Create(t.Context(), key.CreateInput{Credential: owner, Name: "cut", Bytes: 64})
	require.Equal(t, compute.Corrupt, compute.KindOf(err), "a server must not be built on it")

	mine, err := b.List(t.Context(), owner, key.ListInput{})
	require.NoError(t, err)
	require.Empty(t, mine)
	all, err := b.List(t.Context(), compute.Credential{}, key.ListInput{})
	require.NoError(t, err)
	require.Equal(t, key.ListResult{Items: []key.Item{{ID: id}}}, all)
	seen, err := (&key.Activities{Manager: b}).Seen(t.Context(), compute.SeenInput{})
	require.NoError(t, err)
	want := []compute.Seen{{Kind: compute.ThingKeySecret, Name: id.String()}}
	require.Equal(t, compute.SeenResult{Seen: want, Looked: []string{compute.LookedAll}}, seen)

	require.Equal(t, compute.Corrupt, compute.KindOf(b.Delete(t.Context(), key.DeleteInput{Credential: other, Name: "x", ID: &id})))
	require.NoError(t, b.Delete(t.Context(), key.DeleteInput{Credential: owner, Name: "cut"}))
	_, err = b.Passphrase(t.Context(), owner, id)
	require.Equal(t, compute.NotFound, compute.KindOf(err))
}

// A project that could write the folder must not make another's secret its own.
func TestAFileMovedOrRewordedDoesNotOpen(t *testing.T) {
	t.Parallel()
	b := setup(t)
	theirs, mine := b.make(t, other, "theirs"), b.make(t, owner, "mine")
	foreign, err := os.ReadFile(b.file(t, theirs))
	require.NoError(t, err)

	t.Run("moved under my name", func(t *testing.T) {
		require.NoError(t, os.WriteFile(b.file(t, mine), foreign, 0o600))
		_, err := b.Passphrase(t.Context(), owner, mine)
		require.Equal(t, compute.Corrupt, compute.KindOf(err))
	})
	t.Run("with my words", func(t *testing.T) {
		reworded := strings.NewReplacer(theirs.String(), mine.String(), other.ProjectID, owner.ProjectID, "theirs", "mine").Replace(string(foreign))
		require.NoError(t, os.WriteFile(b.file(t, mine), []byte(reworded), 0o600))
		_, err := b.Passphrase(t.Context(), owner, mine)
		require.Equal(t, compute.Corrupt, compute.KindOf(err))
	})
}

func TestAnotherMasterKeyOpensNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.make(t, owner, "locked")
	key := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))
	require.NoError(t, os.WriteFile(b.master, []byte(key), 0o600))
	_, err := b.reopen(t).Passphrase(t.Context(), owner, id)
	require.Equal(t, compute.Corrupt, compute.KindOf(err))
}

func TestMasterKeyFile(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.make(t, owner, "depends on it")
	whole, err := os.ReadFile(b.master)
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		spoil func() error
		kind  compute.Kind
	}{
		"missing":        {func() error { return os.Remove(b.master) }, compute.Corrupt},
		"empty":          {func() error { return os.WriteFile(b.master, nil, 0o600) }, compute.Corrupt},
		"short":          {func() error { return os.WriteFile(b.master, []byte("aGVsbG8="), 0o600) }, compute.Corrupt},
		"open to others": {func() error { return os.Chmod(b.master, 0o640) }, compute.Forbidden},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, tc.spoil())
			_, err := local.Open(b.dir, b.master)
			require.Equal(t, tc.kind, compute.KindOf(err), "%v", err)
			require.NotContains(t, err.Error(), strings.TrimSpace(string(whole)))
			require.NoError(t, os.WriteFile(b.master, whole, 0o600))
			require.NoError(t, os.Chmod(b.master, 0o600))
		})
	}
	b.reopen(t)
}

// A process that dies between writing and renaming leaves a file that is no
// secret; the next start clears it.
func TestWhatACrashLeftIsCleared(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.make(t, owner, "before")
	left := filepath.Join(b.dir, ".new-123")
	require.NoError(t, os.WriteFile(left, []byte(`{"id":"`+uuid.NewString()), 0o600))
	all, err := b.List(t.Context(), compute.Credential{}, key.ListInput{})
	require.NoError(t, err)
	require.Equal(t, []key.Item{{ID: id, Name: "before", ProjectID: owner.ProjectID}}, all.Items)
	b.reopen(t)
	require.NoFileExists(t, left)
}

// A failed write leaves neither a secret nor a scrap.
func TestAFullDiskLeavesNothing(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	err := unix.Mount("tmpfs", root, "tmpfs", 0, "size=64k,mode=0700")
	if errors.Is(err, unix.EPERM) && os.Getenv("CI") == "" {
		t.Skip("mounting a small file system needs root")
	}
	require.NoError(t, err)
	// A program that another test starts has the open files of this process until it runs, so that the file system is busy for that moment.
	t.Cleanup(func() {
		require.Eventually(t, func() bool { return unix.Unmount(root, 0) == nil }, time.Minute, 10*time.Millisecond, "somebody keeps a file open")
	})
	b := bench{root: root, dir: filepath.Join(root, "secrets"), master: filepath.Join(root, "master.key")}
	b.Manager = b.reopen(t)
	filler, err := os.Create(filepath.Join(root, "filler"))
	require.NoError(t, err)
	_, err = io.Copy(filler, zeroes{})
	require.ErrorIs(t, err, unix.ENOSPC)
	require.NoError(t, filler.Close())

	in := key.CreateInput{Credential: owner, ID: compute.SecretID{UUID: uuid.New()}, Name: "disk full", Bytes: 64}
	_, err = b.Create(t.Context(), in)
	require.Equal(t, compute.Unavailable, compute.KindOf(err), "%v", err)
	files, err := os.ReadDir(b.dir)
	require.NoError(t, err)
	require.Len(t, files, 1, "the lock alone")

	require.NoError(t, os.Remove(filler.Name()))
	_, err = b.Create(t.Context(), in)
	require.NoError(t, err)
}

type zeroes struct{}

func (zeroes) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestAVanishedFolderIsUnavailable(t *testing.T) {
	t.Parallel()
	b := setup(t)
	require.NoError(t, os.RemoveAll(b.dir))
	_, err := b.Create(t.Context(), key.CreateInput{Credential: owner, Name: "nowhere", Bytes: 64})
	require.Equal(t, compute.Unavailable, compute.KindOf(err))
}
