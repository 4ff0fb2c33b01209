package local_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"strongroom/activities/key"
	"strongroom/activities/key/keytest"
	"strongroom/activities/key/local"
	"strongroom/compute"
)

var (
	owner = compute.Credential{ProjectID: "11111111111111111111111111111111", UserID: "u1"}
	other = compute.Credential{ProjectID: "22222222222222222222222222222222", UserID: "u2"}
)

func TestConformance(t *testing.T) {
	t.Parallel()
	keytest.Run(t, func(t *testing.T) keytest.Harness {
		b := setup(t)
		return keytest.Harness{Manager: b.Manager, Again: b.reopen(t), Owner: owner, Other: other}
	})
}

type bench struct {
	*local.Manager
	root, dir, master string
}

func setup(t *testing.T) bench {
	t.Helper()
	root := t.TempDir()
	b := bench{root: root, dir: filepath.Join(root, "secrets"), master: filepath.Join(root, "etc", "master.key")}
	b.Manager = b.reopen(t)
	return b
}

func (b bench) reopen(t *testing.T) *local.Manager {
	t.Helper()
	m, err := local.Open(b.dir, b.master)
	require.NoError(t, err)
	return m
}

func (b bench) make(t *testing.T, cred compute.Credential, name string) compute.SecretID {
	t.Helper()
	id, err := b.Create(t.Context(), key.CreateInput{
		Credential: cred, ID: compute.SecretID{UUID: uuid.New()}, Name: name, Bytes: compute.DiskPassphraseBytes,
	})
	require.NoError(t, err)
	return id
}

// file gives the one file of a secret.
func (b bench) file(t *testing.T, id compute.SecretID) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(b.dir, id.String()+".*"))
	require.NoError(t, err)
	require.Len(t, found, 1)
	return found[0]
}

func TestTheClientChoosesTheID(t *testing.T) {
	t.Parallel()
	b := setup(t)
	in := key.CreateInput{Credential: owner, ID: compute.SecretID{UUID: uuid.New()}, Name: "a", Bytes: 64}
	id, err := b.Create(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, in.ID, id)
	in.Name = "b"
	_, err = b.Create(t.Context(), in)
	require.Equal(t, compute.Conflict, compute.KindOf(err))

	in.ID = compute.SecretID{}
	id, err = b.Create(t.Context(), in)
	require.NoError(t, err)
	require.NotEqual(t, uuid.Nil, id.UUID)
}

func TestFilesAreClosedToOthersAndHoldNoValue(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.make(t, owner, "quiet")
	for path, mode := range map[string]os.FileMode{
		b.dir: 0o700, filepath.Dir(b.master): 0o700, b.master: 0o600, b.file(t, id): 0o600,
	} {
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode().Perm(), path)
	}
	p, err := b.Passphrase(t.Context(), owner, id)
	require.NoError(t, err)
	content, err := os.ReadFile(b.file(t, id))
	require.NoError(t, err)
	require.NoError(t, p.Use(func(value []byte) error {
		require.NotContains(t, string(content), string(value[:16]))
		return nil
	}))
}

func TestSecretsOutliveTheProcess(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.make(t, owner, "lasting")
	p, err := b.reopen(t).Passphrase(t.Context(), owner, id)
	require.NoError(t, err)
	require.Equal(t, 88, p.Len())
}

func TestListForTheOperatorSeesAll(t *testing.T) {
	t.Parallel()
	b := setup(t)
	mine, theirs := b.make(t, owner, "mine"), b.make(t, other, "theirs")
	got, err := b.List(t.Context(), compute.Credential{}, key.ListInput{})
	require.NoError(t, err)
	require.ElementsMatch(t, []key.Item{
		{ID: mine, Name: "mine", ProjectID: owner.ProjectID},
		{ID: theirs, Name: "theirs", ProjectID: other.ProjectID},
	}, got.Items)
}

func TestALockHeldElsewhereEndsWithTheContext(t *testing.T) {
	t.Parallel()
	b := setup(t)
	file, err := os.Open(filepath.Join(b.dir, ".lock"))
	require.NoError(t, err)
	defer file.Close()
	require.NoError(t, unix.Flock(int(file.Fd()), unix.LOCK_EX))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	_, err = b.Create(ctx, key.CreateInput{Credential: owner, Name: "late", Bytes: 64})
	require.Equal(t, compute.Unavailable, compute.KindOf(err))
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
