package domain_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"golang.org/x/sys/unix"
	"libvirt.org/go/libvirtxml"

	"strongroom/activities/disk"
	"strongroom/activities/domain"
	"strongroom/compute"
)

// draft is the file that a copy is made in, or "".
func (h *host) draft(t *testing.T, in domain.ExportInput) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(h.InstancesDir, in.Server.String(), compute.ExportFolder(in.Operation), ".*.new"))
	require.NoError(t, err)
	if len(found) == 0 {
		return ""
	}
	require.Len(t, found, 1)
	return found[0]
}

// large gives a running server with enough on its disk to be caught in the middle
// of a copy.
func large(t *testing.T) (*host, compute.Server) {
	t.Helper()
	h := setup(t, roomy)
	s := h.running(t, true)
	h.ask(t, s, "fill large 80", "TG fill file=large err=<nil>")
	return h, s
}

// inTheMiddle runs an export and calls meanwhile when its job is under way.
func (h *host) inTheMiddle(t *testing.T, s compute.Server, export func() error, meanwhile func()) error {
	t.Helper()
	var err error
	var running sync.WaitGroup
	running.Go(func() { err = export() })
	h.slow(t, s)
	meanwhile()
	running.Wait()
	return err
}

// hurried runs an export that may find a job that is slow, or begin one that is over
// before anybody sees it.
func (h *host) hurried(t *testing.T, s compute.Server, export func() error) error {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- export() }()
	for {
		h.hurry(t, s)
		select {
		case err := <-ended:
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func TestExportThatIsCutOff(t *testing.T) {
	t.Parallel()
	h, s := large(t)
	in := h.snapshot(t, s, compute.KeyNew)
	direct := func(ctx context.Context) error { _, err := h.Export(ctx, in); return err }

	t.Run("a cancel ends the job", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		err := h.inTheMiddle(t, s, func() error { return direct(ctx) }, cancel)
		require.ErrorIs(t, err, context.Canceled)
		h.requireNothingLeft(t, s)
	})
	t.Run("a worker that stops leaves the job to the next", func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var file os.FileInfo
		err := h.inTheMiddle(t, s, func() error { return h.asActivity(ctx, in, nil) }, func() {
			var err error
			file, err = os.Stat(h.draft(t, in))
			require.NoError(t, err)
			stop()
		})
		require.Error(t, err)
		require.NotEmpty(t, h.draft(t, in))
		require.Empty(t, h.secrets(t))
		h.leaveSecret(t, s, in) // as one leaves it that is killed as soon as the job has begun
		beats := make(chan domain.Progress, 1000)
		err = h.inTheMiddle(t, s, func() error { return h.asActivity(t.Context(), in, beats) }, func() {
			select {
			case first := <-beats:
				require.Equal(t, "backup", first.Phase)
				require.Equal(t, h.rootMB<<20, first.Total)
			case <-time.After(time.Minute):
				require.Fail(t, "it says nothing of how far it is")
			}
			h.hurry(t, s)
		})
		require.NoError(t, err)
		done, err := h.Export(t.Context(), in)
		require.NoError(t, err)
		now, err := os.Stat(filepath.Join(h.InstancesDir, done.File))
		require.NoError(t, err)
		require.True(t, os.SameFile(file, now), "it was not begun anew")
		h.requireKeys(t, done, s, in)
		h.requireNothingLeft(t, s)
	})
	t.Run("an undo ends what a stopped worker left", func(t *testing.T) {
		in := h.snapshot(t, s, compute.KeyNew)
		ctx, stop := context.WithCancel(t.Context())
		err := h.inTheMiddle(t, s, func() error { return h.asActivity(ctx, in, nil) }, stop)
		require.Error(t, err)
		undo := domain.AbortExportInput{Server: s.ID, Secrets: []compute.SecretID{*in.Target.Secret}}
		for range 2 {
			require.NoError(t, h.AbortExport(t.Context(), undo))
			require.NoError(t, h.disks.Remove(t.Context(), ofFile(s.ID, compute.ExportFolder(in.Operation))))
		}
		h.requireNothingLeft(t, s)
		undo.Server.UUID = uuid.New()
		require.NoError(t, h.AbortExport(t.Context(), undo), "no such server")
	})
	t.Run("another operation's job is ended", func(t *testing.T) {
		first, second := h.snapshot(t, s, compute.KeyNew), h.snapshot(t, s, compute.KeyNone)
		ctx, stop := context.WithCancel(t.Context())
		require.Error(t, h.inTheMiddle(t, s, func() error { return h.asActivity(ctx, first, nil) }, stop))
		_, err := h.Export(t.Context(), second)
		require.NoError(t, err)
		require.NoError(t, h.disks.Remove(t.Context(), ofFile(s.ID, compute.ExportFolder(first.Operation))))
		h.requireNothingLeft(t, s)
	})
	t.Run("a libvirtd that dies", func(t *testing.T) {
		in := h.snapshot(t, s, compute.KeyNew)
		err := h.inTheMiddle(t, s, func() error { _, err := h.Export(t.Context(), in); return err }, func() {
			require.NoError(t, h.daemon.Kill(t.Context()))
		})
		require.Equal(t, compute.Unavailable, compute.KindOf(err), "%v", err)
		require.NoError(t, h.daemon.Restart(t.Context()))
		var done compute.Export
		err = h.hurried(t, s, func() (err error) { done, err = h.Export(t.Context(), in); return err })
		require.NoError(t, err)
		h.requireKeys(t, done, s, in)
		h.requireNothingLeft(t, s)
	})
	t.Run("a libvirtd that hangs", func(t *testing.T) {
		in := h.snapshot(t, s, compute.KeyNew)
		ctx, cancel := context.WithCancel(t.Context())
		err := h.inTheMiddle(t, s, func() error { _, err := h.Export(ctx, in); return err }, func() {
			require.NoError(t, h.daemon.Signal(syscall.SIGSTOP))
			cancel()
		})
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, h.daemon.Signal(syscall.SIGCONT))
		require.NoError(t, h.AbortExport(t.Context(), domain.AbortExportInput{Server: s.ID}))
		require.NoError(t, h.disks.Remove(t.Context(), ofFile(s.ID, compute.ExportFolder(in.Operation))))
		h.requireNothingLeft(t, s)
	})
	t.Run("the server stops", func(t *testing.T) {
		in := h.snapshot(t, s, compute.KeyNew)
		err := h.inTheMiddle(t, s, func() error { _, err := h.Export(t.Context(), in); return err }, func() {
			require.NoError(t, h.Client.Do(t.Context(), func(l *libvirt.Libvirt) error {
				return l.DomainDestroyFlags(libvirt.Domain{UUID: libvirt.UUID(s.ID.UUID)}, 0)
			}))
		})
		require.Contains(t, []compute.Kind{compute.Conflict, compute.Unavailable}, compute.KindOf(err), "%v", err)
		_, err = h.Export(t.Context(), in)
		require.Equal(t, compute.Conflict, compute.KindOf(err), "%v", err)
		require.Empty(t, h.secrets(t))
		require.Empty(t, h.draft(t, in))
		done, err := h.disks.Export(t.Context(), disk.ExportInput{
			Server: s.ID, Operation: in.Operation, Disk: in.Disk, Image: &s.Image, Target: in.Target,
		})
		require.NoError(t, err, "at rest it goes")
		h.requireKeys(t, done, s, in)
		require.NoError(t, h.disks.Remove(t.Context(), ofFile(s.ID, compute.ExportFolder(in.Operation))), "of a server that is off")
	})
}

// An export whose undo found its host silent is ended by the removal of what it wrote.
func TestRemoveEndsACopy(t *testing.T) {
	t.Parallel()
	h := setup(t, idle)
	s := h.server(t, false, nil)
	s.Disks[0].SizeMB = 1024
	h.disksOf(t, s)
	root := filepath.Join(h.InstancesDir, s.ID.String(), s.Disks[0].Name())
	out, err := exec.CommandContext(t.Context(), "qemu-io", "-f", "qcow2", "-c", "write -P 7 512M 512M", root).CombinedOutput()
	require.NoError(t, err, "%s", out) // so much that its copy takes a while
	_, err = h.Start(t.Context(), domain.StartInput{Server: s})
	require.NoError(t, err)
	in := h.snapshot(t, s, compute.KeyNone)
	ctx, stop := context.WithCancel(t.Context())
	require.Error(t, h.inTheMiddle(t, s, func() error { return h.asActivity(ctx, in, nil) }, stop))
	require.NoError(t, h.disks.Remove(t.Context(), ofFile(s.ID, compute.ExportFolder(compute.NewOperationID()))))
	var jobs []any
	h.monitor(t, s, `{"execute":"query-jobs"}`, &jobs)
	require.NotEmpty(t, jobs, "another operation's job goes on")
	for range 2 {
		require.NoError(t, h.disks.Remove(t.Context(), ofFile(s.ID, compute.ExportFolder(in.Operation))))
		h.requireNothingLeft(t, s)
	}
	_, err = h.Stop(t.Context(), domain.StopInput{Server: s.ID})
	require.NoError(t, err)
	require.NoError(t, h.disks.Remove(t.Context(), ofFile(s.ID, compute.ExportFolder(in.Operation))), "of a server that is off")
	require.NoError(t, h.Remove(t.Context(), ofDomain(s.ID)))
	require.NoError(t, h.disks.Remove(t.Context(), ofFile(s.ID, compute.ExportFolder(in.Operation))), "of no domain")
}

// leaveSecret lends libvirt the secret of an export, and does not take it back.
func (h *host) leaveSecret(t *testing.T, s compute.Server, in domain.ExportInput) {
	t.Helper()
	x := libvirtxml.Secret{Ephemeral: "yes", Private: "yes", UUID: in.Target.Secret.String(), Usage: &libvirtxml.SecretUsage{
		Type: "volume", Volume: s.ID.String() + "_" + in.Disk.ID.String() + "_export",
	}}
	doc, err := x.Marshal()
	require.NoError(t, err)
	require.NoError(t, h.Client.Do(t.Context(), func(l *libvirt.Libvirt) error { _, err := l.SecretDefineXML(doc, 0); return err }))
	require.Contains(t, h.seen(t), compute.Seen{Kind: compute.ThingHypervisorSecret, Name: in.Target.Secret.String()}, "the audit finds it")
}

// asActivity runs an export as a worker does; the end of ctx is the worker's end.
func (h *host) asActivity(ctx context.Context, in domain.ExportInput, beats chan<- domain.Progress) error {
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.SetTestTimeout(2 * time.Minute)
	env.SetWorkerOptions(worker.Options{BackgroundActivityContext: ctx})
	domain.Export.Register(env, h.Export)
	env.SetOnActivityHeartbeatListener(func(_ *activity.Info, details converter.EncodedValues) {
		var p domain.Progress
		if beats != nil && details.Get(&p) == nil {
			beats <- p
		}
	})
	_, err := env.ExecuteActivity(domain.Export.Name, in)
	return err
}

func TestExportRefuses(t *testing.T) {
	t.Parallel()
	h := setup(t, idle)
	s := h.started(t, true)
	for name, c := range map[string]struct {
		kind   compute.Kind
		change func(in *domain.ExportInput)
	}{
		"no server":        {compute.Invalid, func(in *domain.ExportInput) { in.Server = compute.ServerID{} }},
		"no such server":   {compute.Corrupt, func(in *domain.ExportInput) { in.Server = compute.ServerID{UUID: uuid.New()} }},
		"no operation":     {compute.Invalid, func(in *domain.ExportInput) { in.Operation = "" }},
		"no secret":        {compute.Invalid, func(in *domain.ExportInput) { in.Target.Secret = nil }},
		"another's secret": {compute.Forbidden, func(in *domain.ExportInput) { in.Target.Secret = &compute.SecretID{UUID: uuid.New()} }},
		"no such disk":     {compute.Invalid, func(in *domain.ExportInput) { in.Disk.DeviceName = "/dev/vdx" }},
	} {
		in := h.snapshot(t, s, compute.KeyNew)
		c.change(&in)
		_, err := h.Export(t.Context(), in)
		require.Equal(t, c.kind, compute.KindOf(err), "%s: %v", name, err)
		require.Empty(t, h.draft(t, in), name)
		h.requireNothingLeft(t, s)
	}
}

func TestExportWhenTheHostIsFull(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	require.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=300m,mode=0711"))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	h := setupIn(t, dir, tiny)
	s := h.running(t, true)
	in := h.snapshot(t, s, compute.KeyNew)
	var fs unix.Statfs_t
	require.NoError(t, unix.Statfs(dir, &fs))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "filler"), make([]byte, int64(fs.Bavail)*fs.Bsize-6<<20), 0o600))
	_, err := h.Export(t.Context(), in)
	require.Equal(t, compute.NoHost, compute.KindOf(err), "%v", err)
	h.requireNothingLeft(t, s)
	require.NoError(t, os.Remove(filepath.Join(dir, "filler")))
	_, err = h.Export(t.Context(), in)
	require.NoError(t, err)
	require.NoError(t, h.Remove(t.Context(), ofDomain(s.ID)))
}
