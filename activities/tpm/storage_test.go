package tpm_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/tpm"
	"strongroom/compute"
)

// TPM-39: hosts that share a folder find the same id, whoever makes it; others have others.
func TestStorage(t *testing.T) {
	t.Parallel()
	a, b, _ := hosts(t)
	shared := a
	shared.Activities = &tpm.Activities{SwtpmDir: a.SwtpmDir}
	ids := make([]uuid.UUID, 16)
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() {
			id, err := []host{a, shared}[i%2].Storage()
			if err == nil {
				ids[i] = id
			}
		})
	}
	all.Wait()
	require.NotEqual(t, uuid.Nil, ids[0])
	for _, id := range ids {
		require.Equal(t, ids[0], id)
	}
	other, err := b.Storage()
	require.NoError(t, err)
	require.NotEqual(t, ids[0], other)
	left, err := os.ReadDir(a.SwtpmDir)
	require.NoError(t, err)
	require.Len(t, left, 1, "no draft")
	require.NoError(t, os.WriteFile(filepath.Join(b.SwtpmDir, left[0].Name()), []byte("nonsense"), 0o600))
	_, err = b.Storage()
	require.True(t, compute.Is(err, compute.Corrupt), "%v", err)
}

// A host that looks for a state leaves it as it is: the guest of another one may run on it.
func TestShownChangesNothing(t *testing.T) {
	t.Parallel()
	h, _, _ := hosts(t)
	h.has("some state")
	require.NoError(t, os.Chmod(h.path("tpm2"), 0o755))
	was, err := os.Stat(h.path("tpm2"))
	require.NoError(t, err)
	got, err := h.Shown(t.Context(), tpm.ShowInput{Server: h.server, Version: compute.TPM20})
	require.NoError(t, err)
	require.True(t, got.Shown)
	is, err := os.Stat(h.path("tpm2"))
	require.NoError(t, err)
	require.Equal(t, was.Mode(), is.Mode())
}

// TPM-39: a host sees what another one noted beside a state where they share it, and only there.
// What is noted is no part of the state.
func TestShownWhereItIsShared(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it gives files to others")
	}
	a, b, _ := hosts(t)
	shared := a
	shared.Activities = &tpm.Activities{SwtpmDir: a.SwtpmDir}
	sees := func(h host, op compute.OperationID) bool {
		t.Helper()
		got, err := h.Shown(t.Context(), tpm.ShowInput{Server: a.server, Operation: op})
		require.NoError(t, err)
		return got.Shown
	}
	show := func(op compute.OperationID) error {
		return a.Show(t.Context(), tpm.ShowInput{Server: a.server, Operation: op})
	}
	require.True(t, compute.Is(show("req-1"), compute.Corrupt), "there is no state")
	require.False(t, sees(a, ""))
	a.has("some state")
	name := compute.TPMObject(a.server, "req-1")
	before, err := a.save(name)
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, show("req-1"))
	}
	for _, v := range []struct {
		at   host
		op   compute.OperationID
		sees bool
	}{{shared, "req-1", true}, {shared, "", true}, {shared, "req-2", false}, {b, "req-1", false}, {b, "", false}} {
		require.Equal(t, v.sees, sees(v.at, v.op), v)
	}
	require.NoError(t, show("req-2"))
	require.False(t, sees(shared, "req-1"), "of an earlier operation")
	after, err := a.save(name)
	require.NoError(t, err)
	require.Equal(t, before, after)
	b.has("a copy that was there before")
	require.False(t, sees(b, "req-2"))
}
