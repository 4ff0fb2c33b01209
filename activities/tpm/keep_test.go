package tpm_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/activities/tpm"
	"strongroom/compute"
)

const resizeOp, revertOp = compute.OperationID("req-resize"), compute.OperationID("req-revert")

// TPM-17, TPM-19: the state that a resize puts aside comes back bit for bit, with its owner; what is
// done once is not done again under a guest that has started since.
func TestKeepAndPutBack(t *testing.T) {
	t.Parallel()
	h, _, _ := hosts(t)
	h.has("before")
	kept := compute.KeptTPM(h.server, resizeOp)
	for range 2 {
		require.NoError(t, h.Keep(t.Context(), tpm.KeepInput{Server: h.server, Kept: kept}))
	}
	require.Equal(t, "before", h.state())

	empty := tpm.PutBackInput{Server: h.server, Operation: resizeOp}
	require.NoError(t, h.PutBack(t.Context(), empty))
	require.NoFileExists(t, h.path("tpm2", "tpm2-00.permall"))
	h.has("fresh")
	require.NoError(t, h.PutBack(t.Context(), empty))
	require.Equal(t, "fresh", h.state(), "the guest has started")
	require.NoError(t, h.Keep(t.Context(), tpm.KeepInput{Server: h.server, Kept: kept}))

	back := tpm.PutBackInput{Server: h.server, Operation: revertOp, Kept: kept}
	require.NoError(t, h.PutBack(t.Context(), back))
	require.Equal(t, "before", h.state())
	h.has("after")
	require.NoError(t, h.PutBack(t.Context(), back))
	require.Equal(t, "after", h.state())

	seen, err := h.Seen(t.Context(), compute.SeenInput{})
	require.NoError(t, err)
	require.Len(t, seen.Seen, 2)

	other := compute.KeptTPM(compute.ServerID{UUID: h.server.UUID}, "req-other")
	require.Equal(t, compute.Corrupt, compute.KindOf(h.PutBack(t.Context(), tpm.PutBackInput{Server: h.server, Operation: "req-x", Kept: other})))
	require.Equal(t, compute.Invalid, compute.KindOf(h.Keep(t.Context(), tpm.KeepInput{Server: h.server, Kept: "../" + kept})))
}

// TPM-19: where a vTPM has no state yet, the copy says so, and there is none again once that is put back. Else what is missing, or a copy
// that lost its files, is no such state.
func TestKeepOfNoState(t *testing.T) {
	t.Parallel()
	h, _, _ := hosts(t)
	kept := compute.Thing{Kind: compute.ThingTPMState, Name: compute.KeptTPM(h.server, revertOp), Operation: revertOp, Reference: compute.KeptUndecided}
	keep := func(isNew bool) error {
		return h.Keep(t.Context(), tpm.KeepInput{Server: h.server, Kept: kept.Name, New: isNew})
	}
	for _, make := range []func(){func() {}, func() { // as a resize leaves it
		require.NoError(t, h.PutBack(t.Context(), tpm.PutBackInput{Server: h.server, Operation: resizeOp}))
	}} {
		make()
		require.Equal(t, compute.Corrupt, compute.KindOf(keep(false)))
		for range 2 {
			require.NoError(t, keep(true))
		}
		h.has("the former one")
		require.NoError(t, h.Remove(t.Context(), compute.Removal{Thing: kept}))
		require.NoFileExists(t, h.path("tpm2", "tpm2-00.permall"))
		require.NoDirExists(t, filepath.Join(h.SwtpmDir, kept.Name))
	}
	h.has("the former one")
	require.NoError(t, keep(true), "the guest has booted: there is one")
	require.NoError(t, os.RemoveAll(filepath.Join(h.SwtpmDir, kept.Name, "tpm2")))
	require.Equal(t, compute.Corrupt, compute.KindOf(h.Remove(t.Context(), compute.Removal{Thing: kept})))
	require.Equal(t, "the former one", h.state())
}

// A copy that goes before anything was decided is put back, also where libvirt removed the state
// that it could not set up, and not under a guest that runs.
func TestRemoveOfAKeptState(t *testing.T) {
	t.Parallel()
	h, _, _ := hosts(t)
	h.has("before")
	kept := compute.Thing{Kind: compute.ThingTPMState, Name: compute.KeptTPM(h.server, resizeOp), Operation: resizeOp}
	keep := func() { require.NoError(t, h.Keep(t.Context(), tpm.KeepInput{Server: h.server, Kept: kept.Name})) }
	remove := func() { require.NoError(t, h.Remove(t.Context(), compute.Removal{Thing: kept})) }
	gone := func() {
		entries, err := os.ReadDir(h.SwtpmDir)
		require.NoError(t, err)
		for _, e := range entries {
			require.Equal(t, h.server.String(), e.Name())
		}
	}

	keep()
	h.has("used since")
	remove()
	require.Equal(t, "used since", h.state(), "it was decided")
	gone()

	keep()
	h.has("used once more")
	kept.Reference = compute.KeptUndecided
	for range 2 {
		remove()
	}
	require.Equal(t, "used since", h.state())
	gone()

	keep()
	require.NoError(t, os.RemoveAll(h.path()))
	remove()
	require.Equal(t, "used since", h.state())
	gone()

	keep()
	h.has("of a guest that runs")
	h.Guests = running{}
	err := h.Remove(t.Context(), compute.Removal{Thing: kept})
	require.Equal(t, compute.Unavailable, compute.KindOf(err), "%v", err)
	require.Equal(t, "of a guest that runs", h.state())
	h.Guests = nil
	remove()
	require.Equal(t, "used since", h.state())
	gone()
}

// running says that all guests run.
type running struct{}

func (running) IsOff(_ context.Context, id compute.ServerID) error {
	return compute.Errorf(compute.Conflict, "the guest of server %s runs", id)
}
