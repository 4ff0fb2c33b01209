package tpm_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/activities/tpm"
	"strongroom/activities/tpm/tpmtest"
	"strongroom/compute"
)

func ownerOf(t *testing.T, path string) int {
	t.Helper()
	is, err := os.Lstat(path)
	require.NoError(t, err)
	return int(is.Sys().(*syscall.Stat_t).Uid)
}

// K20: a vTPM whose state is gone, or is none, is not made anew by libvirt: the start is refused. S3: nor does libvirt, as root, get to see a link.
func TestK20AStateThatIsGoneIsMissed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(h host) error
		want   string
	}{
		"no folder":   {func(h host) error { return os.RemoveAll(h.path()) }, "is not on this host"},
		"no state":    {func(h host) error { return os.RemoveAll(h.path("tpm2")) }, "is not on this host"},
		"no file":     {func(h host) error { return os.Remove(h.path("tpm2", "tpm2-00.permall")) }, "is not on this host"},
		"empty":       {func(h host) error { return os.Truncate(h.path("tpm2", "tpm2-00.permall"), 0) }, "is empty"},
		"short":       {func(h host) error { return os.Truncate(h.path("tpm2", "tpm2-00.permall"), 15) }, "is damaged"},
		"another TPM": {func(h host) error { return os.Rename(h.path("tpm2"), h.path("tpm1.2")) }, "is not on this host"},
		"another file": {func(h host) error {
			return os.Rename(h.path("tpm2", "tpm2-00.permall"), h.path("tpm2", "tpm-00.permall"))
		}, "is not on this host"},
		"a link":       {func(h host) error { return os.Symlink("/etc/shadow", h.path("tpm2", "more")) }, "is no file"},
		"a pipe":       {func(h host) error { return syscall.Mkfifo(h.path("tpm2", "tpm2-00.volatilestate"), 0o600) }, "is no file"},
		"folder, link": {func(h host) error { return elsewhere(h, "tpm2") }, "is no folder"},
		"all, a link":  {func(h host) error { return elsewhere(h) }, "is no folder"},
		"many": {func(h host) error {
			for i := range 1001 {
				if err := os.WriteFile(h.path("tpm2", strconv.Itoa(i)), nil, 0o600); err != nil {
					return err
				}
			}
			return nil
		}, "more than 1000 files"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, _, _ := hosts(t)
			h.has("some state")
			require.NoError(t, h.Check(t.Context(), h.server, compute.TPM20, false))
			shown, err := h.Shown(t.Context(), tpm.ShowInput{Server: h.server, Version: compute.TPM20})
			require.NoError(t, err)
			require.True(t, shown.Shown)
			require.NoError(t, c.change(h))
			err = h.Check(t.Context(), h.server, compute.TPM20, false)
			require.Equal(t, compute.Corrupt, compute.KindOf(err), "%v", err)
			require.ErrorContains(t, err, c.want)
			err = h.Check(t.Context(), h.server, compute.TPM20, true)
			isLost := slices.Contains([]string{"is not on this host", "is empty", "is damaged"}, c.want)
			require.Equal(t, isLost, err == nil, "a new one is made where there is none that a guest has used: %v", err)
			got, err := h.Shown(t.Context(), tpm.ShowInput{Server: h.server, Version: compute.TPM20}) // which a rebuild asks
			require.False(t, got.Shown)
			require.Equal(t, slices.Contains([]string{"is empty", "is damaged"}, c.want), got.Damaged)
			require.Equal(t, isLost, err == nil, "%v", err)
		})
	}
}

// K20: a rebuild finds that a state is lost, keeps that, and clears what is left of it: libvirt takes a folder that is not empty for a state. So it is where no
// endorsement keys are certified, and libvirt makes the new one. What was there comes back where the rebuild is undone.
func TestK20WhatIsLeftOfALostStateMakesWay(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it gives files to others")
	}
	for name, lose := range map[string]func(h host) error{
		"empty":   func(h host) error { return os.Truncate(h.path("tpm2", "tpm2-00.permall"), 0) },
		"short":   func(h host) error { return os.Truncate(h.path("tpm2", "tpm2-00.permall"), 15) },
		"no file": func(h host) error { return os.Rename(h.path("tpm2", "tpm2-00.permall"), h.path("tpm2", "left")) },
		"all":     func(h host) error { return os.RemoveAll(h.path()) },
		"moved":   func(h host) error { return os.Rename(h.path("tpm2"), h.path("tpm2.old")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, _, _ := hosts(t)
			h.has("some state")
			require.NoError(t, lose(h))
			files := func() map[string]int64 {
				found := map[string]int64{}
				_ = filepath.WalkDir(h.path(), func(path string, e fs.DirEntry, err error) error {
					if err == nil && !e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
						is, err := e.Info()
						require.NoError(t, err)
						found[path] = is.Size()
					}
					return nil
				})
				return found
			}
			left := files()
			const op = compute.OperationID("req-11111111-2222-3333-4444-555555555555")
			kept := compute.KeptTPM(h.server, op)
			require.NoError(t, h.Keep(t.Context(), tpm.KeepInput{Server: h.server, Kept: kept, New: true}))
			require.NoError(t, h.PutBack(t.Context(), tpm.PutBackInput{Server: h.server, Operation: op}))
			require.NoError(t, h.Make(t.Context(), compute.FreshTPM{Server: h.server, Version: compute.TPM20, Operation: op, Began: time.Now()}, nil))
			require.NoError(t, h.Check(t.Context(), h.server, compute.TPM20, true))
			require.NoDirExists(t, h.path("tpm2"))

			h.has("a new one")
			undo := compute.Removal{Thing: compute.Operation{ID: op, ServerID: h.server}.Thing(compute.ThingTPMState, "", kept)}
			undo.Thing.Reference = compute.KeptUndecided
			require.NoError(t, h.Remove(t.Context(), undo))
			require.Equal(t, left, files(), "what was there is there again")
			require.Error(t, h.Check(t.Context(), h.server, compute.TPM20, false), "no new one is left")
		})
	}
}

// K20: where the file system is not mounted nothing is lost, and a rebuild does not make a new state under it.
func TestK20AFolderThatIsNotMountedHasLostNothing(t *testing.T) {
	t.Parallel()
	h, _, _ := hosts(t)
	_, err := h.Storage()
	require.NoError(t, err)
	h.has("some state")
	ask := func() (bool, error) {
		got, err := h.Shown(t.Context(), tpm.ShowInput{Server: h.server, Version: compute.TPM20})
		return got.Shown, err
	}
	is, err := ask()
	require.NoError(t, err)
	require.True(t, is)
	require.NoError(t, os.Rename(h.SwtpmDir, h.SwtpmDir+".away"))
	for range 2 { // without an id, and with the one that the next report of the host makes
		_, err = ask()
		require.Equal(t, compute.Conflict, compute.KindOf(err), "%v", err)
		require.ErrorContains(t, err, "is not on the storage that it was on")
		_, err = h.Storage()
		require.NoError(t, err)
	}
	require.NoError(t, os.RemoveAll(h.SwtpmDir))
	require.NoError(t, os.Rename(h.SwtpmDir+".away", h.SwtpmDir))
	is, err = ask()
	require.NoError(t, err)
	require.True(t, is)
}

// elsewhere moves a part of a state away and leaves a link to it.
func elsewhere(h host, name ...string) error {
	away := filepath.Join(h.SwtpmDir, "away")
	if err := os.Rename(h.path(name...), away); err != nil {
		return err
	}
	return os.Symlink(away, h.path(name...))
}

// S3: a state has so many files and folders, however many its swtpm makes.
func TestS3AStateOfManyFoldersIsNoState(t *testing.T) {
	t.Parallel()
	h, _, _ := hosts(t)
	h.has("some state")
	refused := func() {
		t.Helper()
		_, err := h.save(compute.TPMObject(h.server, "req-1"))
		require.Equal(t, compute.Corrupt, compute.KindOf(err), "%v", err)
		require.ErrorContains(t, err, "more than 1000 files")
	}
	for i := range 998 { // with tpm2 and its file, as many as may be
		require.NoError(t, os.MkdirAll(h.path("tpm2", strconv.Itoa(i%10), strconv.Itoa(i)), 0o700))
	}
	refused() // in ten folders
	require.NoError(t, os.RemoveAll(h.path("tpm2", "0")))
	for i := range 1001 {
		require.NoError(t, os.Mkdir(h.path("tpm2", "f"+strconv.Itoa(i)), 0o700))
	}
	refused() // in one
}

// S3: the folder of a state is root's, that of an earlier release, too; what is in it is swtpm's.
func TestS3TheFolderOfAStateIsRoots(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it gives files to others")
	}
	h, to, _ := hosts(t)
	require.NoError(t, h.GiveFoldersToRoot(), "there is none yet")
	h.has("some state")
	kept := h.server.String() + ".0123abcd"
	require.NoError(t, os.Mkdir(filepath.Join(h.SwtpmDir, kept), 0o711))
	require.NoError(t, os.Symlink("/etc", filepath.Join(h.SwtpmDir, "etc")))
	for _, path := range []string{h.path(), h.path("tpm2"), filepath.Join(h.SwtpmDir, kept)} {
		require.NoError(t, os.Chown(path, h.Owner.UID, h.Owner.GID))
	}
	require.NoError(t, h.GiveFoldersToRoot())
	require.Zero(t, ownerOf(t, h.path()))
	require.Zero(t, ownerOf(t, filepath.Join(h.SwtpmDir, kept)))
	require.Equal(t, h.Owner.UID, ownerOf(t, h.path("tpm2")))

	// Nor may others write there because its owner until then let them.
	require.NoError(t, errors.Join(os.Chmod(h.path(), 0o777), os.Chmod(h.path("tpm2"), 0o777)))
	require.NoError(t, h.GiveFoldersToRoot())
	require.NoError(t, h.Check(t.Context(), h.server, compute.TPM20, false))
	for path, mode := range map[string]os.FileMode{h.path(): 0o711, h.path("tpm2"): 0o700} {
		is, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, mode, is.Mode().Perm(), path)
	}
	require.NoError(t, os.Chown(h.path("tpm2"), h.Owner.UID, h.Owner.GID)) // as libvirt does

	name := compute.TPMObject(h.server, "req-1")
	got, err := h.save(name)
	require.NoError(t, err)
	require.NoError(t, to.restore("req-2", compute.StoredTPM{Object: name, SHA256: got.SHA256}))
	require.Zero(t, ownerOf(t, to.path()))
	require.Equal(t, to.Owner.UID, ownerOf(t, to.path("tpm2")))
	require.NoError(t, to.NoteNew(t.Context(), to.server, "req-3", time.Now()))
	require.Zero(t, ownerOf(t, to.path()))
}

// K20: no copy is made of a state that swtpm would take for none: it would take the place of a good backup, and of the state itself on another host.
func TestK20NoCopyIsMadeOfAStateThatIsNone(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(h host) error{
		"empty":                func(h host) error { return os.Truncate(h.path("tpm2", "tpm2-00.permall"), 0) },
		"gone":                 func(h host) error { return os.Remove(h.path("tpm2", "tpm2-00.permall")) },
		"short":                func(h host) error { return os.Truncate(h.path("tpm2", "tpm2-00.permall"), 15) },
		"a part of its header": func(h host) error { return os.Truncate(h.path("tpm2", "tpm2-00.permall"), 8) },
		"longer": func(h host) error {
			return os.WriteFile(h.path("tpm2", "tpm2-00.permall"), append(tpmtest.State("some state"), 0), 0o600)
		},
		"in another folder": func(h host) error { return os.Rename(h.path("tpm2"), h.path("tpm2.old")) },
		"of another version": func(h host) error {
			return os.Rename(h.path("tpm2", "tpm2-00.permall"), h.path("tpm2", "tpm-00.permall"))
		},
		"but for others": func(h host) error {
			return os.Rename(h.path("tpm2", "tpm2-00.permall"), h.path("tpm2", "tpm2-00.volatilestate"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, to, _ := hosts(t)
			h.has("some state")
			good := compute.TPMObject(h.server, "req-1")
			got, err := h.save(good)
			require.NoError(t, err)
			require.NoError(t, spoil(h))
			_, saved := h.save(compute.TPMObject(h.server, "req-2"))
			_, backed := h.BackUp(t.Context(), tpm.SaveInput{Credential: cred, Server: h.server, Object: compute.TPMObject(h.server, "req-3")})
			_, sent := h.Send(t.Context(), h.server)
			_, summed := h.Digest(t.Context(), tpm.DigestInput{Server: h.server})
			for what, err := range map[string]error{"save": saved, "back up": backed, "send": sent, "digest": summed} {
				require.Equal(t, compute.Corrupt, compute.KindOf(err), "%s: %v", what, err)
			}
			if os.Geteuid() == 0 { // it gives files to others
				require.NoError(t, to.restore("req-4", compute.StoredTPM{Object: good, SHA256: got.SHA256}))
				require.Equal(t, "some state", to.state())
			}
		})
	}
}
