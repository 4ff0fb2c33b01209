package disk_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"

	"strongroom/activities/disk"
	"strongroom/compute"
)

func (e *exported) folder() string {
	return filepath.Join(e.InstancesDir, e.Server.String(), compute.ExportFolder(e.Operation))
}

// inside lists the files of an export.
func (e *exported) inside(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(e.folder())
	if !errors.Is(err, os.ErrNotExist) {
		require.NoError(t, err)
	}
	names := []string{}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func TestExportRefuses(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.exported(t, nil, true)
	copied, _ := b.secret(t)
	b.keys[*copied] = e.key
	other, _ := b.secret(t)
	stranger := &compute.SecretID{UUID: newDisk().UUID}
	e.Target.Secret = copied
	img := b.cached(t, "raw", []byte(strings.Repeat("image", 1024)))
	for name, c := range map[string]struct {
		kind   compute.Kind
		change func(in *disk.ExportInput)
	}{
		"no server":                 {compute.Invalid, func(in *disk.ExportInput) { in.Server = compute.ServerID{} }},
		"no operation":              {compute.Invalid, func(in *disk.ExportInput) { in.Operation = "" }},
		"an odd operation":          {compute.Invalid, func(in *disk.ExportInput) { in.Operation = "../.." }},
		"no format":                 {compute.Invalid, func(in *disk.ExportInput) { in.Target.Format = "" }},
		"an odd format":             {compute.Invalid, func(in *disk.ExportInput) { in.Target.Format = "vmdk" }},
		"no choice":                 {compute.Invalid, func(in *disk.ExportInput) { in.Target.Key = "" }},
		"raw with a secret":         {compute.Invalid, func(in *disk.ExportInput) { in.Target.Format = "raw" }},
		"luks without":              {compute.Invalid, func(in *disk.ExportInput) { in.Target = compute.ExportTarget{Format: "luks", Key: "none"} }},
		"same without":              {compute.Invalid, func(in *disk.ExportInput) { in.Target.Secret = nil }},
		"new without":               {compute.Invalid, func(in *disk.ExportInput) { in.Target = compute.ExportTarget{Format: "qcow2", Key: "new"} }},
		"none with a secret":        {compute.Invalid, func(in *disk.ExportInput) { in.Target.Key = compute.KeyNone }},
		"same that is another":      {compute.Conflict, func(in *disk.ExportInput) { in.Target.Secret = other }},
		"another's secret":          {compute.Forbidden, func(in *disk.ExportInput) { in.Target.Secret = stranger }},
		"the disk's is another's":   {compute.Forbidden, func(in *disk.ExportInput) { in.Disk.Secret = stranger }},
		"the disk's secret missing": {compute.Invalid, func(in *disk.ExportInput) { in.Disk.Secret = nil }},
		"the disk's format":         {compute.Invalid, func(in *disk.ExportInput) { in.Disk.Format = compute.FormatLUKSv2 }},
		"another source":            {compute.Corrupt, func(in *disk.ExportInput) { in.Image = img }},
		"not encrypted": {compute.Corrupt, func(in *disk.ExportInput) {
			in.Disk.Encrypted, in.Target = false, compute.ExportTarget{Format: "qcow2", Key: "same"}
		}},
		"no such disk":             {compute.Corrupt, func(in *disk.ExportInput) { in.Disk.Index = 7 }},
		"no such server":           {compute.Corrupt, func(in *disk.ExportInput) { in.Server = newServer() }},
		"a key that does not open": {compute.Corrupt, func(in *disk.ExportInput) { in.Disk.Secret, in.Target.Secret = other, other }},
		"nor to encrypt anew": {compute.Corrupt, func(in *disk.ExportInput) {
			in.Disk.Secret, in.Target.Secret, in.Target.Key = other, copied, compute.KeyNew
		}},
	} {
		in := e.ExportInput
		c.change(&in)
		_, err := b.Export(t.Context(), in)
		require.Equal(t, c.kind, compute.KindOf(err), "%s: %v", name, err)
		require.Empty(t, e.inside(t), name)
	}
	got := b.seen(t, compute.ThingDiskFile)
	require.NotContains(t, strings.Join(got, " "), "..")
}

// A guest that broke out may have made its disk's header name any file of the host.
func TestExportFollowsNoHeader(t *testing.T) {
	t.Parallel()
	b := setup(t)
	victim := filepath.Join(t.TempDir(), "victim")
	require.NoError(t, os.WriteFile(victim, []byte(strings.Repeat("of the host only", 1<<16)), 0o600))
	for name, args := range map[string][]string{
		"backing file": {"-u", "-b", victim, "-F", "raw"},
		"data file":    {"-o", "data_file=" + victim},
	} {
		e := b.exported(t, nil, false)
		file := filepath.Join(b.InstancesDir, e.Server.String(), e.Disk.Name())
		require.NoError(t, os.WriteFile(file, qemuImage(t, "qcow2", append(args, "8M")...), 0o600))
		_, err := b.Export(t.Context(), e.ExportInput)
		require.Equal(t, compute.Corrupt, compute.KindOf(err), "%s: %v", name, err)
		require.Empty(t, e.inside(t), name)
	}
}

// A disk that a guest writes to is no disk to copy.
func TestExportOfARunningServersDisk(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, key := range []compute.KeyChoice{compute.KeySame, compute.KeyNone} {
		e := b.exported(t, nil, false)
		e.Target.Key = key
		off := runsOn(t, filepath.Join(b.InstancesDir, e.Server.String(), e.Disk.Name()))
		_, err := b.Export(t.Context(), e.ExportInput)
		require.Equal(t, compute.Conflict, compute.KindOf(err), "%v", err)
		off()
		_, err = b.Export(t.Context(), e.ExportInput)
		require.NoError(t, err)
	}
}

// A cancel in the middle leaves nothing, and what a kill in the middle or a crash
// of the host left is begun anew.
func TestExportBeginsAnew(t *testing.T) {
	t.Parallel()
	b := setup(t)
	img := b.baseImage(t, "qcow2")
	for _, c := range []struct {
		choice compute.KeyChoice
		verb   string
	}{{compute.KeySame, "rebase"}, {compute.KeyNew, "convert"}} {
		e := b.exported(t, img, true)
		var key string
		e.Target.Key = c.choice
		e.Target.Secret, key = b.secret(t)
		if c.choice == compute.KeySame {
			b.keys[*e.Target.Secret], key = e.key, e.key
		}
		ctx, cancel := context.WithCancel(t.Context())
		b.runner.before = func(command *disk.Command) {
			if tell := command.Percent; command.Args[0] == c.verb {
				command.Percent = func(percent float64) { cancel(); tell(percent) }
			}
		}
		_, err := b.Export(ctx, e.ExportInput)
		require.ErrorIs(t, err, context.Canceled)
		require.Empty(t, e.inside(t))
		b.runner.before = nil

		for _, left := range []string{".disk.00000000.qcow2.new", "disk.00000000.qcow2", ".disk.11111111.qcow2.new"} {
			require.NoError(t, os.WriteFile(filepath.Join(e.folder(), left), []byte("half"), 0o600))
		}
		require.NoError(t, os.WriteFile(filepath.Join(e.folder(), "disk.swap.00000000.qcow2"), nil, 0o600)) // another disk's
		done, err := b.Export(t.Context(), e.ExportInput)
		require.NoError(t, err)
		require.ElementsMatch(t, []string{filepath.Base(done.File), "disk.swap.00000000.qcow2"}, e.inside(t))
		requireIO(t, e.node(done, true), key, "", readBack)
	}
}

func TestExportIsFoundAndRemoved(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.exported(t, nil, false)
	done, err := b.Export(t.Context(), e.ExportInput)
	require.NoError(t, err)
	name := e.Server.String() + "/" + compute.ExportFolder(e.Operation)
	got := b.seen(t, compute.ThingDiskFile)
	require.Equal(t, []string{e.Server.String() + "/" + e.Disk.Name(), name}, got)

	f, err := b.OpenExport(done.File)
	require.NoError(t, err)
	info, err := f.Stat()
	require.NoError(t, err)
	require.Equal(t, done.Bytes, info.Size())
	require.NoError(t, f.Close())
	now := strings.Split(filepath.Base(done.File), ".")
	for file, kind := range map[string]compute.Kind{
		strings.Replace(done.File, now[2], "00000000", 1):    compute.Conflict,
		strings.Replace(done.File, "disk.", "disk.none.", 1): compute.NotFound,
		e.Server.String() + "/disk.eph0":                     compute.Invalid,
		name + "/../disk.eph0." + now[2] + ".qcow2":          compute.Invalid,
		"../" + done.File: compute.Invalid,
		"":                compute.Invalid,
	} {
		_, err := b.OpenExport(file)
		require.Equal(t, kind, compute.KindOf(err), "%s: %v", file, err)
	}

	for range 2 {
		require.NoError(t, b.Remove(t.Context(), ofFile(e.Server, compute.ExportFolder(e.Operation))))
		require.NoDirExists(t, e.folder())
	}
	require.True(t, compute.Is(b.Remove(t.Context(), ofFile(e.Server, compute.ExportFolder("../"+e.Operation))), compute.Invalid))
	_, err = b.OpenExport(done.File)
	require.True(t, compute.Is(err, compute.NotFound))
	_, err = b.Export(t.Context(), e.ExportInput)
	require.NoError(t, err)
	for _, file := range []string{compute.ExportFolder(e.Operation), e.Disk.Name()} { // as the ledger names them
		require.NoError(t, b.Remove(t.Context(), ofFile(e.Server, file)))
	}
	require.Empty(t, b.files(t))
}

func TestExportSaysWhenTheHostIsFull(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.exported(t, nil, false)
	e.Target.Key = compute.KeyNone
	b.runner.fail = func(c disk.Command) error {
		if c.Args[0] == "convert" {
			return &disk.CommandError{Name: "qemu-img convert", Err: errors.New("exit status 1"), Stderr: "error while writing: No space left on device"}
		}
		return nil
	}
	_, err := b.Export(t.Context(), e.ExportInput)
	require.Equal(t, compute.NoHost, compute.KindOf(err), "%v", err)
	require.Empty(t, e.inside(t))
}

func TestExportTellsItsProgress(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for choice, phase := range map[compute.KeyChoice]string{compute.KeySame: "copy", compute.KeyNone: "convert"} {
		e := b.exported(t, nil, false)
		e.Target.Key = choice
		var suite testsuite.WorkflowTestSuite
		env := suite.NewTestActivityEnvironment()
		disk.Export.Register(env, b.Export)
		beats := make(chan disk.Progress, 100)
		env.SetOnActivityHeartbeatListener(func(_ *activity.Info, details converter.EncodedValues) {
			var p disk.Progress
			if details.Get(&p) == nil {
				beats <- p
			}
		})
		_, err := env.ExecuteActivity(disk.Export.Name, e.ExportInput)
		require.NoError(t, err)
		select {
		case p := <-beats:
			require.Equal(t, phase, p.Phase)
			require.Positive(t, p.Total)
			require.LessOrEqual(t, p.Done, p.Total)
		case <-time.After(time.Second):
			require.FailNow(t, "no heartbeat")
		}
	}
}
