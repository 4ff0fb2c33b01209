package disk_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/activities/disk"
	"strongroom/compute"
)

func TestRemoveTakesTheFolderWithTheLastFile(t *testing.T) {
	t.Parallel()
	b := setup(t)
	server, other := newServer(), newServer()
	for _, s := range []compute.ServerID{server, other} {
		for _, d := range []compute.Disk{{Role: compute.SwapDisk}, {Role: compute.EphemeralDisk}} {
			d.ID, d.SizeMB = newDisk(), 1
			_, err := b.Create(t.Context(), disk.CreateInput{Server: s, Disk: d})
			require.NoError(t, err)
		}
	}
	folder := filepath.Join(b.InstancesDir, server.String())
	require.NoError(t, os.WriteFile(filepath.Join(folder, disk.ConsoleLog), []byte("boot"), 0o600))
	for _, old := range []string{".0", ".12"} { // as virtlogd leaves them
		require.NoError(t, os.WriteFile(filepath.Join(folder, disk.ConsoleLog+old), []byte("boot"), 0o600))
	}
	require.NoError(t, os.Mkdir(filepath.Join(b.InstancesDir, "not-a-server"), 0o700))
	got := b.seen(t, compute.ThingDiskFile)
	require.Len(t, got, 5)
	require.Contains(t, got, server.String()+"/console.log")

	var all sync.WaitGroup
	for range 2 { // every file twice, all at once
		for _, f := range []string{"disk.swap", "disk.eph0", disk.ConsoleLog, "disk"} {
			all.Go(func() {
				require.NoError(t, b.Remove(t.Context(), ofFile(server, f)))
			})
		}
	}
	all.Wait()
	require.NoDirExists(t, folder)
	got = b.seen(t, compute.ThingDiskFile)
	require.Equal(t, []string{other.String() + "/disk.eph0", other.String() + "/disk.swap"}, got)
}

// A removal that waited leaves alone the console log and the config drive of a server that
// was booted here since; a disk's name is one operation's, and goes.
func TestARemovalThatWaitedSparesALaterBoot(t *testing.T) {
	t.Parallel()
	b := setup(t)
	server := newServer()
	dir := filepath.Join(b.InstancesDir, server.String())
	since := time.Now()
	files := []string{disk.ConsoleLog, compute.ConfigDriveFile, "disk"}
	boot := func(began time.Time) {
		t.Helper()
		require.NoError(t, os.MkdirAll(dir, 0o711))
		require.NoError(t, b.NoteBoot(t.Context(), server, began))
		for _, f := range files {
			require.NoError(t, os.WriteFile(filepath.Join(dir, f), []byte("data"), 0o600))
		}
	}
	late := func() {
		t.Helper()
		for _, f := range files {
			waited := ofFile(server, f)
			waited.Thing.State, waited.Thing.Since = compute.ThingWaiting, since
			require.NoError(t, b.Remove(t.Context(), waited))
		}
	}
	boot(since.Add(-time.Second))
	require.Equal(t, []string{server.String() + "/console.log", server.String() + "/disk", server.String() + "/disk.config"},
		slices.Compact(b.seen(t, compute.ThingDiskFile)), "the mark of the boot is the console log's")
	late()
	require.NoDirExists(t, dir)

	boot(since.Add(-time.Second))
	boot(since.Add(time.Second))
	late()
	require.FileExists(t, filepath.Join(dir, disk.ConsoleLog))
	require.FileExists(t, filepath.Join(dir, compute.ConfigDriveFile))
	require.NoFileExists(t, filepath.Join(dir, "disk"))
	for _, f := range files {
		require.NoError(t, b.Remove(t.Context(), ofFile(server, f)))
	}
	require.NoDirExists(t, dir, "who has the server removes them")
}

func TestRemoveStaysInTheFolder(t *testing.T) {
	t.Parallel()
	b := setup(t)
	victim := filepath.Join(b.InstancesDir, "victim")
	require.NoError(t, os.WriteFile(victim, nil, 0o600))
	for _, file := range []string{"", ".", "..", "../victim", "/etc/passwd", ".disk.new", "disk/x", "disk\x00"} {
		err := b.Remove(t.Context(), ofFile(newServer(), file))
		require.True(t, compute.Is(err, compute.Invalid), "%q: %v", file, err)
	}
	for _, name := range []string{"victim", "../victim", "not-a-server/victim"} {
		err := b.Remove(t.Context(), compute.Removal{Thing: compute.Thing{Kind: compute.ThingDiskFile, Name: name}})
		require.True(t, compute.Is(err, compute.Invalid), "%q: %v", name, err)
	}
	require.True(t, compute.Is(b.Remove(t.Context(), ofFile(compute.ServerID{}, "victim")), compute.Invalid))
	wrong := ofFile(newServer(), "disk")
	wrong.Thing.Kind = compute.ThingDomain
	require.True(t, compute.Is(b.Remove(t.Context(), wrong), compute.Invalid))
	require.FileExists(t, victim)
}

func TestExecKillsTheWholeGroup(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	pids := filepath.Join(t.TempDir(), "pids")
	var pid []byte
	go func() {
		for len(pid) == 0 {
			time.Sleep(time.Millisecond)
			pid, _ = os.ReadFile(pids)
		}
		cancel()
	}()
	// The grandchild holds the pipes that are read: who waits for it waits for ever.
	_, err := disk.Exec{}.Run(ctx, disk.Command{Name: "sh", Args: []string{"-c", "sleep infinity & echo $! >" + pids + "; wait"}})
	require.ErrorIs(t, err, context.Canceled)
	require.Eventually(t, func() bool {
		stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat")
		return err != nil || strings.Contains(string(stat), ") Z ")
	}, time.Minute, 10*time.Millisecond, "the grandchild is gone too")
}

func TestExecSaysWhatWentWrong(t *testing.T) {
	t.Parallel()
	_, err := disk.Exec{}.Run(t.Context(), disk.Command{Name: "sh", Args: []string{"-c", "echo first; echo why >&2; exit 3"}})
	var failed *disk.CommandError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, "why", failed.Stderr)
	require.ErrorContains(t, err, "exit status 3")
}

// There are more files than a page holds.
func TestSeenGivesPages(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var want []string
	for range compute.SeenPage/4 + 1 {
		server := newServer()
		folder := filepath.Join(b.InstancesDir, server.String())
		require.NoError(t, os.Mkdir(folder, 0o711))
		for _, file := range []string{"disk", "disk.config", "disk.swap", disk.ConsoleLog} {
			require.NoError(t, os.WriteFile(filepath.Join(folder, file), nil, 0o600))
			want = append(want, server.String()+"/"+file)
		}
	}
	first, err := b.Seen(t.Context(), compute.SeenInput{})
	require.NoError(t, err)
	require.Len(t, first.Seen, compute.SeenPage)
	require.Empty(t, first.Looked)
	last := first.Seen[compute.SeenPage-1].Name
	require.NoError(t, os.Remove(filepath.Join(b.InstancesDir, last))) // where the next page begins
	second, err := b.Seen(t.Context(), compute.SeenInput{Page: first.Next})
	require.NoError(t, err)
	require.Equal(t, []string{compute.LookedAll}, second.Looked)
	require.Empty(t, second.Next)
	var got []string
	for _, s := range append(first.Seen, second.Seen...) {
		require.Equal(t, compute.ThingDiskFile, s.Kind)
		got = append(got, s.Name)
	}
	slices.Sort(want)
	require.Equal(t, want, got)
}
