package domain_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/domain"
	"strongroom/activities/mount"
	"strongroom/compute"
)

// exported is where the share of a test is.
type exported string

func (e exported) Export(context.Context, compute.Credential, compute.ShareID) (mount.Export, error) {
	return mount.Export{Path: string(e)}, nil
}

// SH-10, SH-11, SH-18: a guest mounts its share by the tag, reads what is there and writes a file that
// the test reads past it. The mount stays while the guest runs, and goes when it is off.
func TestSH10AGuestWritesIntoItsShare(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	h := setupIn(t, dir, tiny)
	source := exported(t.TempDir())
	mounts, err := mount.New(mount.Config{Dir: filepath.Join(dir, "mounts"), Exports: source, Guests: h.Activities, Daemon: h.Client.Daemon})
	require.NoError(t, err)
	h.Shares = mounts
	s := h.server(t, true, nil)
	m := compute.ShareMapping{Share: compute.ShareID{UUID: uuid.New()}, Tag: "data", Protocol: compute.LocalShare}
	s.Shares = []compute.ShareMapping{m}
	h.disksOf(t, s)
	require.NoError(t, os.WriteFile(filepath.Join(string(source), "letter"), []byte("from outside"), 0o644))
	use := compute.Removal{Thing: compute.Thing{Kind: compute.ThingShareMount, Name: compute.ShareUse(m.Share, s.ID)}}

	// A guest is not given the folder in which its share is not mounted (any more: its host was restarted).
	require.NoError(t, os.MkdirAll(mounts.Path(m.Share), 0o700))
	_, err = h.Start(t.Context(), domain.StartInput{Server: s})
	require.True(t, compute.Is(err, compute.Conflict), "%v", err)
	require.ErrorContains(t, err, "share "+m.Share.String()+" is not mounted on its host any more")
	require.NotContains(t, err.Error(), mounts.Path(m.Share))
	state, err := h.Client.Power(t.Context(), s.ID)
	require.NoError(t, err)
	require.Equal(t, compute.PowerNone, state)

	for boot, text := range []string{"first", "second"} {
		require.NoError(t, mounts.Mount(t.Context(), mount.Input{Share: m.Share, Protocol: compute.LocalShare, Server: s.ID, Operation: "req-1"}))
		_, err = h.Start(t.Context(), domain.StartInput{Server: s})
		require.NoError(t, err)
		h.hear(t, s, "TG ready", boot)
		h.ask(t, s, "share data", "TG share err=<nil>")
		require.Contains(t, h.ask(t, s, "cat /share/letter", "TG cat "), "from outside")
		h.ask(t, s, "write /share/note "+text, "TG write file=/share/note err=<nil>")
		note, err := os.ReadFile(filepath.Join(string(source), "note"))
		require.NoError(t, err)
		require.Equal(t, text, string(note))
		require.Equal(t, compute.Conflict, compute.KindOf(mounts.Remove(t.Context(), use)), "its guest runs")
		with, err := h.WithFolder(t.Context(), mounts.Path(m.Share))
		require.NoError(t, err)
		require.Equal(t, []compute.ServerID{s.ID}, with)
		_, err = h.Stop(t.Context(), domain.StopInput{Server: s.ID, GraceSeconds: 30})
		require.NoError(t, err)
		with, err = h.WithFolder(t.Context(), mounts.Path(m.Share))
		require.NoError(t, err)
		require.Empty(t, with)
		require.NoError(t, mounts.Remove(t.Context(), use))
		seen, err := mounts.Seen(t.Context(), compute.SeenInput{})
		require.NoError(t, err)
		require.Empty(t, seen.Seen)
	}
	// A guest that runs gives its share back, and is given none where libvirt has no cgroup for it: this one would end at it.
	device := domain.ShareInput{Server: s.ID, Share: m.Share, Tag: m.Tag}
	require.Equal(t, compute.Conflict, compute.KindOf(h.AttachShare(t.Context(), device)), "it is off")
	require.NoError(t, h.DetachShare(t.Context(), device))
	require.NoError(t, mounts.Mount(t.Context(), mount.Input{Share: m.Share, Protocol: compute.LocalShare, Server: s.ID, Operation: "req-1"}))
	_, err = h.Start(t.Context(), domain.StartInput{Server: s})
	require.NoError(t, err)
	h.hear(t, s, "TG ready", 2)
	h.ask(t, s, "share data", "TG share err=<nil>")
	require.NoError(t, h.AttachShare(t.Context(), device), "it has it")
	other := device
	other.Tag = "other"
	require.Equal(t, compute.Conflict, compute.KindOf(h.AttachShare(t.Context(), other)))
	require.NoError(t, h.DetachShare(t.Context(), device))
	require.NoError(t, h.DetachShare(t.Context(), device))
	require.NotContains(t, h.ask(t, s, "cat /share/note", "TG cat "), "second")
	require.NoError(t, mounts.Remove(t.Context(), use), "its guest has it no more")
	require.NoError(t, mounts.Mount(t.Context(), mount.Input{Share: m.Share, Protocol: compute.LocalShare, Server: s.ID, Operation: "req-1"}))
	require.ErrorContains(t, h.AttachShare(t.Context(), device), "libvirt has no cgroup")
	state, err = h.Client.Power(t.Context(), s.ID)
	require.NoError(t, err)
	require.Equal(t, compute.PowerRunning, state)
	require.NoError(t, mounts.Remove(t.Context(), use))
	_, err = h.Stop(t.Context(), domain.StopInput{Server: s.ID, GraceSeconds: 30})
	require.NoError(t, err)

	// SH-17: a share that was detached while the guest ran goes once the guest runs without it.
	require.NoError(t, mounts.Mount(t.Context(), mount.Input{Share: m.Share, Protocol: compute.LocalShare, Server: s.ID, Operation: "req-1"}))
	s.Shares = nil
	_, err = h.Start(t.Context(), domain.StartInput{Server: s})
	require.NoError(t, err)
	require.NoError(t, mounts.Remove(t.Context(), use))
	require.Equal(t, compute.Conflict, compute.KindOf(h.IsOff(t.Context(), s.ID)), "it runs")
	_, err = h.Stop(t.Context(), domain.StopInput{Server: s.ID})
	require.NoError(t, err)
	require.NoError(t, h.Remove(t.Context(), compute.Removal{Thing: compute.Thing{Kind: compute.ThingDomain, Name: s.InstanceName(), Owner: compute.ServerOwner(s.ID)}}))
}
