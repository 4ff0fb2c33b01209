package tpm_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/object"
	"strongroom/activities/object/local"
	"strongroom/activities/tpm"
	"strongroom/activities/tpm/tpmtest"
	"strongroom/compute"
)

var cred = compute.Credential{ID: uuid.New(), ProjectID: "11111111111111111111111111111111", UserID: "u"}

// stored gives the state to a real object store.
type stored struct{ object.Store }

func (s stored) Put(ctx context.Context, cred compute.Credential, name string, size int64, data io.ReaderAt) error {
	_, err := s.Store.Put(ctx, object.PutInput{Credential: cred, Name: name, Size: size}, data)
	return err
}

func (s stored) Open(ctx context.Context, cred compute.Credential, name string) (io.ReadCloser, error) {
	return s.Store.Open(ctx, cred, name, 0)
}

type host struct {
	*tpm.Activities
	t      *testing.T
	server compute.ServerID
}

// hosts are two hosts with one object store. Their swtpm is nobody's, so that owners show.
func hosts(t *testing.T) (from, to host, objects object.Store) {
	t.Helper()
	objects, err := local.Open(filepath.Join(t.TempDir(), "objects"))
	require.NoError(t, err)
	server := compute.ServerID{UUID: uuid.New()}
	at := func() host {
		a, err := tpm.New(tpm.Config{SwtpmDir: filepath.Join(t.TempDir(), "swtpm"), User: "nobody", Group: "nogroup", Objects: stored{objects}})
		require.NoError(t, err)
		return host{a, t, server}
	}
	return at(), at(), objects
}

func (h host) path(name ...string) string {
	return filepath.Join(append([]string{h.SwtpmDir, h.server.String()}, name...)...)
}

// has lays down a state as swtpm and libvirt do.
func (h host) has(state string) {
	h.t.Helper()
	require.NoError(h.t, os.MkdirAll(h.path("tpm2"), 0o711))
	require.NoError(h.t, os.Chmod(h.path("tpm2"), 0o700))
	for name, data := range map[string][]byte{"tpm2-00.permall": tpmtest.State(state), ".lock": nil} {
		require.NoError(h.t, os.WriteFile(h.path("tpm2", name), data, 0o600))
	}
}

func (h host) state() string {
	h.t.Helper()
	data, err := os.ReadFile(h.path("tpm2", "tpm2-00.permall"))
	require.NoError(h.t, err)
	return tpmtest.Text(data)
}

func (h host) save(name string) (tpm.SaveResult, error) {
	return h.Save(h.t.Context(), tpm.SaveInput{Credential: cred, Server: h.server, Object: name})
}

func (h host) restore(op compute.OperationID, from compute.StoredTPM) error {
	return h.Restore(h.t.Context(), tpm.RestoreInput{Credential: cred, Server: h.server, Operation: op, Stored: from})
}

// TPM-02, TPM-21, TPM-25: the state of one host comes to another bit for bit, and is
// swtpm's there. Saved again, it is the same object.
func TestSaveAndRestore(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it gives files to others")
	}
	from, to, objects := hosts(t)
	from.has("some state")
	name := compute.TPMObject(from.server, "req-1")
	var first tpm.SaveResult
	for range 2 {
		got, err := from.save(name)
		require.NoError(t, err)
		if first == (tpm.SaveResult{}) {
			first = got
		}
		require.Equal(t, first, got)
	}
	data, err := objects.Open(t.Context(), cred, name, 0)
	require.NoError(t, err)
	whole, err := io.ReadAll(data)
	require.NoError(t, err)
	sum := sha256.Sum256(whole)
	require.Equal(t, hex.EncodeToString(sum[:]), first.SHA256)
	require.False(t, bytes.Contains(whole, []byte(".lock")), "swtpm's lock is no state")

	kept := compute.StoredTPM{Object: name, SHA256: first.SHA256}
	to.has("what another server life left")
	require.NoError(t, to.restore("req-2", kept))
	require.Equal(t, "some state", to.state())
	for path, is := range map[string]struct {
		mode     os.FileMode
		uid, gid int
	}{
		to.path():                          {0o711, 0, 0},
		to.path("tpm2"):                    {0o700, to.Owner.UID, to.Owner.GID},
		to.path("tpm2", "tpm2-00.permall"): {0o600, to.Owner.UID, to.Owner.GID},
	} {
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, is.mode, info.Mode().Perm(), path)
		owner, ok := info.Sys().(*syscall.Stat_t)
		require.True(t, ok)
		require.Equal(t, []int{is.uid, is.gid}, []int{int(owner.Uid), int(owner.Gid)}, path)
	}
	require.NoFileExists(t, to.path("tpm2", ".lock"))

	// The guest runs, and a late attempt takes nothing back from it.
	require.NoError(t, os.WriteFile(to.path("tpm2", "tpm2-00.permall"), tpmtest.State("it went on"), 0o600))
	require.NoError(t, to.restore("req-2", kept))
	require.Equal(t, "it went on", to.state())

	got, err := to.save(compute.TPMObject(to.server, "req-3"))
	require.NoError(t, err)
	require.NotEqual(t, first.SHA256, got.SHA256)
	require.NoError(t, to.Remove(t.Context(), of(to.server.String())))
	require.NoDirExists(t, to.path())
	left, err := os.ReadDir(to.SwtpmDir)
	require.NoError(t, err)
	require.Empty(t, left)
}

// A removal that waited takes neither state that was laid down since, nor the new one of a
// guest that was started since; what was there before, it takes.
func TestARemovalThatWaitedSparesLaterState(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it gives files to others")
	}
	from, to, _ := hosts(t)
	from.has("some state")
	name := compute.TPMObject(from.server, "req-1")
	got, err := from.save(name)
	require.NoError(t, err)
	since := time.Now()
	waited := of(to.server.String())
	waited.Thing.State, waited.Thing.Since, waited.Thing.Operation = compute.ThingWaiting, since, "req-2"
	for what, make := range map[string]func(began time.Time) error{
		"laid down": func(began time.Time) error {
			return to.Restore(t.Context(), tpm.RestoreInput{
				Credential: cred, Server: to.server, Operation: "req-2", Began: began, Stored: compute.StoredTPM{Object: name, SHA256: got.SHA256},
			})
		},
		"new": func(began time.Time) error {
			err := to.NoteNew(t.Context(), to.server, "req-3", began)
			to.has("new state")
			return err
		},
	} {
		require.NoError(t, make(since.Add(-time.Second)), what)
		require.NoError(t, to.Remove(t.Context(), waited))
		require.NoDirExists(t, to.path(), what)
		require.NoError(t, make(since.Add(time.Second)), what)
		was := to.state()
		require.NoError(t, to.Remove(t.Context(), waited))
		require.Equal(t, was, to.state(), what)
		its := waited
		its.Thing.Since = time.Time{}
		require.NoError(t, to.Remove(t.Context(), its))
		require.NoDirExists(t, to.path(), "who has the server removes it")
	}
}

// M8: a row that was restored names another operation than the one that laid the state down:
// who has the server removes it all the same, and so does a removal that waits since. One that
// was asked for before that, and acts late, removes nothing.
func TestRemoveOfStateWhoseRowWasRestored(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it gives files to others")
	}
	from, to, _ := hosts(t)
	from.has("some state")
	name := compute.TPMObject(from.server, "req-1")
	got, err := from.save(name)
	require.NoError(t, err)
	began := time.Now()
	layDown := func() {
		require.NoError(t, to.Restore(t.Context(), tpm.RestoreInput{
			Credential: cred, Server: to.server, Operation: "req-2", Began: began, Stored: compute.StoredTPM{Object: name, SHA256: got.SHA256},
		}))
	}
	restored := of(to.server.String())
	restored.Thing.Operation = "req-that-made-the-server"

	layDown()
	late := restored
	late.Began = began.Add(-time.Second)
	require.NoError(t, to.Remove(t.Context(), late))
	require.Equal(t, "some state", to.state())
	for what, of := range map[string]time.Time{"a delete": began.Add(time.Second), "its own undo": began, "nobody says when": {}} {
		layDown()
		asked := restored
		asked.Began = of
		require.NoError(t, to.Remove(t.Context(), asked))
		require.NoDirExists(t, to.path(), what)
	}
	layDown()
	restored.Thing.State, restored.Thing.Since = compute.ThingWaiting, began.Add(time.Second)
	require.NoError(t, to.Remove(t.Context(), restored))
	require.NoDirExists(t, to.path())
}

// TPM-26: what is not what was kept is not laid down, and what was there stays.
func TestRestoreOfSomethingElse(t *testing.T) {
	t.Parallel()
	from, to, objects := hosts(t)
	from.has("some state")
	name := compute.TPMObject(from.server, "req-1")
	got, err := from.save(name)
	require.NoError(t, err)
	to.has("before")
	large := make([]byte, 5<<20)
	sum := sha256.Sum256(large)
	require.NoError(t, stored{objects}.Put(t.Context(), cred, name+"-large", int64(len(large)), bytes.NewReader(large)))
	err = to.restore("req-2", compute.StoredTPM{Object: name + "-large", SHA256: hex.EncodeToString(sum[:])})
	require.Equal(t, compute.Corrupt, compute.KindOf(err))
	require.ErrorContains(t, err, "it has more than 4 MiB")
	require.Equal(t, compute.Corrupt, compute.KindOf(to.restore("req-2", compute.StoredTPM{Object: name, SHA256: hex.EncodeToString(make([]byte, 32))})))
	require.Equal(t, compute.NotFound, compute.KindOf(to.restore("req-2", compute.StoredTPM{Object: name + "x", SHA256: got.SHA256})))
	require.Equal(t, "before", to.state())
	left, err := os.ReadDir(to.SwtpmDir)
	require.NoError(t, err)
	require.Len(t, left, 1)
}

// There is nothing to save where no swtpm was, and nothing but files and folders is saved.
func TestSaveOfNoState(t *testing.T) {
	t.Parallel()
	from, _, objects := hosts(t)
	name := compute.TPMObject(from.server, "req-1")
	_, err := from.save(name)
	require.Equal(t, compute.Corrupt, compute.KindOf(err))
	require.NoError(t, os.MkdirAll(from.path(), 0o700))
	_, err = from.save(name)
	require.Equal(t, compute.Corrupt, compute.KindOf(err))
	from.has("some state")
	require.NoError(t, os.Symlink("/etc/passwd", from.path("tpm2", "more")))
	_, err = from.save(name)
	require.Equal(t, compute.Corrupt, compute.KindOf(err))
	_, err = objects.Get(t.Context(), cred, name)
	require.Equal(t, compute.NotFound, compute.KindOf(err))
	_, err = tpm.New(tpm.Config{User: "nobody-knows"})
	require.ErrorContains(t, err, "nobody-knows")
}
