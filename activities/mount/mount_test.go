package mount_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"strongroom/activities/mount"
	"strongroom/compute"
)

// host is a host of a test with one share.
type host struct {
	*mount.Activities
	t      *testing.T
	share  compute.ShareID
	source string // where the share is exported

	mu      sync.Mutex
	running map[compute.ServerID]bool
	away    error // why nobody says which guests run
}

func (h *host) Export(context.Context, compute.Credential, compute.ShareID) (mount.Export, error) {
	return mount.Export{Path: h.source}, nil
}

// HasFolder gives the guests that run the test's share, and no other folder.
func (h *host) HasFolder(_ context.Context, id compute.ServerID, path string) (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.running[id] && path == h.Path(h.share), nil
}

// WithFolder gives them all.
func (h *host) WithFolder(_ context.Context, path string) (all []compute.ServerID, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.away != nil {
		return nil, h.away
	}
	for id, runs := range h.running {
		if runs && path == h.Path(h.share) {
			all = append(all, id)
		}
	}
	return all, nil
}

// forgets loses the note that a server uses the share.
func (h *host) forgets(server compute.ServerID) {
	h.t.Helper()
	require.NoError(h.t, os.Remove(filepath.Join(filepath.Dir(h.Path(h.share)), server.String()+".use")))
}

// begin gives a host; again is another process on the same one.
func begin(t *testing.T) *host {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root may mount")
	}
	h := &host{t: t, share: compute.ShareID{UUID: uuid.New()}, source: t.TempDir(), running: map[compute.ServerID]bool{}}
	h.Activities = h.again(filepath.Join(t.TempDir(), "mounts"))
	t.Cleanup(func() {
		for unix.Unmount(h.Path(h.share), unix.MNT_DETACH) == nil { // what a test that failed left
		}
	})
	return h
}

func (h *host) again(dir string) *mount.Activities {
	a, err := mount.New(mount.Config{Dir: dir, Exports: h, Guests: h})
	require.NoError(h.t, err)
	return a
}

func (h *host) input(server compute.ServerID) mount.Input {
	return mount.Input{Share: h.share, Protocol: compute.LocalShare, Server: server, Operation: "req-1", Began: time.Now()}
}

func (h *host) use(server compute.ServerID) compute.Removal {
	return compute.Removal{Thing: compute.Thing{Kind: compute.ThingShareMount, Name: compute.ShareUse(h.share, server)}}
}

// apart has a daemon of libvirt's in namespaces of its own, for mounts and for processes.
func (h *host) apart() (pid int) {
	h.t.Helper()
	daemon := exec.Command("unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", "echo; exec sleep 600")
	out, err := daemon.StdoutPipe()
	require.NoError(h.t, err)
	require.NoError(h.t, daemon.Start())
	h.t.Cleanup(func() { _ = daemon.Process.Kill(); _ = daemon.Wait() })
	_, err = out.Read(make([]byte, 1)) // it is in its namespaces
	require.NoError(h.t, err)
	h.Daemon = func(context.Context) (int, error) { return daemon.Process.Pid, nil }
	return daemon.Process.Pid
}

func (h *host) mounts() int { return h.mountsOf(os.Getpid()) }

func (h *host) mountsOf(pid int) int {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "mountinfo"))
	require.NoError(h.t, err)
	return strings.Count(string(text), " "+h.Path(h.share)+" ")
}

func (h *host) seen() []compute.Seen {
	got, err := h.Seen(h.t.Context(), compute.SeenInput{})
	require.NoError(h.t, err)
	require.Equal(h.t, []string{compute.LookedAll}, got.Looked)
	return got.Seen
}

func newServer() compute.ServerID { return compute.ServerID{UUID: uuid.New()} }

// SH-10, SH-11: mounting and unmounting twice is as once, and what is written there is in the share.
func TestSH10AShareIsMountedOnce(t *testing.T) {
	t.Parallel()
	h, server := begin(t), newServer()
	for range 2 {
		require.NoError(t, h.Mount(t.Context(), h.input(server)))
		require.Equal(t, 1, h.mounts())
	}
	require.NoError(t, os.WriteFile(filepath.Join(h.Path(h.share), "letter"), []byte("dear"), 0o600))
	require.FileExists(t, filepath.Join(h.source, "letter"))
	require.Equal(t, []compute.Seen{{Kind: compute.ThingShareMount, Name: compute.ShareUse(h.share, server)}}, h.seen())
	for range 2 {
		require.NoError(t, h.Remove(t.Context(), h.use(server)))
		require.Zero(t, h.mounts())
	}
	require.NoDirExists(t, filepath.Dir(h.Path(h.share)))
	require.FileExists(t, filepath.Join(h.source, "letter"))
	require.Empty(t, h.seen())
}

// SH-33: a mount that is there for another server is used, with a warning; for the same one there is none.
func TestSH33AMountOfAnotherServerIsUsedWithAWarning(t *testing.T) {
	t.Parallel()
	h, server := begin(t), newServer()
	var log bytes.Buffer
	h.Logger = slog.New(slog.NewTextHandler(&log, nil))
	for range 2 {
		require.NoError(t, h.Mount(t.Context(), h.input(server)))
		require.Empty(t, log.String())
	}
	require.NoError(t, h.Mount(t.Context(), h.input(newServer())))
	require.Equal(t, 1, h.mounts())
	require.Regexp(t, `^time=\S+ level=WARN msg="a share was mounted already, for another server" share=`+h.share.String()+` servers=1\n$`, log.String())
}

// SH-17: the last use takes the mount along, also when the worker was restarted meanwhile.
func TestSH17TheLastUseTakesTheMountAlong(t *testing.T) {
	t.Parallel()
	h, one, two := begin(t), newServer(), newServer()
	require.NoError(t, h.Mount(t.Context(), h.input(one)))
	require.NoError(t, h.Mount(t.Context(), h.input(two)))
	require.Equal(t, 1, h.mounts())
	h.Activities = h.again(h.Dir)
	require.NoError(t, h.Remove(t.Context(), h.use(one)))
	require.Equal(t, 1, h.mounts())
	require.NoError(t, h.Remove(t.Context(), h.use(one)))
	require.Equal(t, 1, h.mounts())
	require.NoError(t, h.Remove(t.Context(), h.use(two)))
	require.Zero(t, h.mounts())
}

// SH-17: servers come and go at once, and none loses its mount to another.
func TestSH17UsesComeAndGoAtOnce(t *testing.T) {
	t.Parallel()
	h := begin(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			server := newServer()
			for range 10 {
				if !assert(t, h.Mount(t.Context(), h.input(server)) == nil && h.mounts() == 1) {
					return
				}
				if !assert(t, h.Remove(t.Context(), h.use(server)) == nil) {
					return
				}
			}
		})
	}
	all.Wait()
	require.Zero(t, h.mounts())
	require.Empty(t, h.seen())
}

func assert(t *testing.T, ok bool) bool {
	if !ok {
		t.Error("a use was lost, or a call failed")
	}
	return ok
}

// SH-15: a mount that is in use cannot be ended. That is told, without its path (SH-25), and its use stays noted, so that another process finds it and ends it later.
func TestSH15AMountThatIsInUse(t *testing.T) {
	t.Parallel()
	h, server := begin(t), newServer()
	require.NoError(t, h.Mount(t.Context(), h.input(server)))
	letter, err := os.Create(filepath.Join(h.Path(h.share), "letter"))
	require.NoError(t, err)
	err = h.Remove(t.Context(), h.use(server))
	require.Equal(t, compute.Conflict, compute.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "its mount could not be ended")
	require.NotContains(t, err.Error(), h.Dir)
	require.Equal(t, 1, h.mounts())
	h.Activities = h.again(h.Dir)
	require.Equal(t, []compute.Seen{{Kind: compute.ThingShareMount, Name: compute.ShareUse(h.share, server)}}, h.seen())
	require.NoError(t, letter.Close())
	require.NoError(t, h.Remove(t.Context(), h.use(server)))
	require.Zero(t, h.mounts())
	require.Empty(t, h.seen())
}

// Nothing is unmounted under a guest that runs.
func TestAMountStaysWhileItsGuestRuns(t *testing.T) {
	t.Parallel()
	h, server := begin(t), newServer()
	require.NoError(t, h.Mount(t.Context(), h.input(server)))
	h.running[server] = true
	require.Equal(t, compute.Conflict, compute.KindOf(h.Remove(t.Context(), h.use(server))))
	require.Equal(t, 1, h.mounts())
	delete(h.running, server)
	require.NoError(t, h.Remove(t.Context(), h.use(server)))
	require.Zero(t, h.mounts())
}

// SH-17: nor is it where nothing says that a guest uses it: libvirt knows, and what was lost is noted anew.
func TestSH17AMountStaysWhileAnyGuestRuns(t *testing.T) {
	t.Parallel()
	h, one, two := begin(t), newServer(), newServer()
	for _, server := range []compute.ServerID{one, two} {
		require.NoError(t, h.Mount(t.Context(), h.input(server)))
	}
	h.running[two] = true
	h.forgets(two)
	require.NoError(t, h.Remove(t.Context(), h.use(one)))
	require.Equal(t, 1, h.mounts(), "the other one runs with it")
	require.Equal(t, []compute.Seen{{Kind: compute.ThingShareMount, Name: compute.ShareUse(h.share, two)}}, h.seen())

	h.forgets(two)
	require.NoError(t, h.Remove(t.Context(), h.use(compute.ServerID{})), "as of a mount that nobody uses")
	require.Equal(t, 1, h.mounts())
	h.forgets(two)
	h.away = compute.Errorf(compute.Unavailable, "libvirt does not answer")
	require.ErrorIs(t, h.Remove(t.Context(), h.use(compute.ServerID{})), h.away)
	require.ErrorIs(t, h.Mount(t.Context(), h.input(one)), h.away, "who runs with it is not known")
	require.Equal(t, 1, h.mounts())
	h.away = nil
	h.source = t.TempDir()
	require.Equal(t, compute.Conflict, compute.KindOf(h.Mount(t.Context(), h.input(one))), "it has moved, and is not taken from the one that runs")
	require.Equal(t, 1, h.mounts())
	require.NoError(t, h.Remove(t.Context(), h.use(one)))

	require.Equal(t, compute.Conflict, compute.KindOf(h.Remove(t.Context(), h.use(two))))
	delete(h.running, two)
	require.NoError(t, h.Remove(t.Context(), h.use(two)))
	require.Zero(t, h.mounts())
	require.Empty(t, h.seen())
}

// SH-25: not even an error of the notes beside a mount point says where that is.
func TestSH25AnErrorOfANoteNamesNoPath(t *testing.T) {
	t.Parallel()
	h, server := begin(t), newServer()
	note := filepath.Join(h.Dir, h.share.String(), server.String()+".use")
	require.NoError(t, os.MkdirAll(filepath.Join(note, "in the way"), 0o700)) // no file takes the place of a folder
	err := h.Mount(t.Context(), h.input(server))
	require.Equal(t, compute.Unavailable, compute.KindOf(err), "%v", err)
	require.NotContains(t, err.Error(), h.Dir)
}

// A removal that waited, and comes late, takes nothing of an operation that began since.
func TestALateRemovalLeavesANewerMount(t *testing.T) {
	t.Parallel()
	h, server := begin(t), newServer()
	late := h.use(server)
	late.Thing.State, late.Thing.Since = compute.ThingWaiting, time.Now().Add(-time.Minute)
	require.NoError(t, h.Mount(t.Context(), h.input(server)))
	require.NoError(t, h.Remove(t.Context(), late))
	require.Equal(t, 1, h.mounts())
	require.NoError(t, h.Remove(t.Context(), h.use(server)))
	require.Zero(t, h.mounts())
}

// SH-12: what cannot be mounted is refused at once; SH-25: the error does not say from where.
func TestSH12AMountThatFails(t *testing.T) {
	t.Parallel()
	h, server := begin(t), newServer()
	require.NoError(t, os.Remove(h.source))
	err := h.Mount(t.Context(), h.input(server))
	require.Equal(t, compute.Conflict, compute.KindOf(err))
	require.NotContains(t, err.Error(), h.source)
	require.NotContains(t, err.Error(), h.Dir)
	require.NoError(t, h.Remove(t.Context(), h.use(server)))
	require.Empty(t, h.seen())

	other := h.input(server)
	other.Protocol = "GLUSTERFS"
	require.EqualError(t, h.Mount(t.Context(), other), "Share protocol GLUSTERFS is not supported.")
	require.Equal(t, compute.Invalid, compute.KindOf(h.Mount(t.Context(), mount.Input{Protocol: compute.LocalShare})))
	wrong := h.use(server)
	wrong.Thing.Name = "../../etc"
	require.Equal(t, compute.Invalid, compute.KindOf(h.Remove(t.Context(), wrong)))
	wrong.Thing.Kind = compute.ThingDiskFile
	require.Equal(t, compute.Invalid, compute.KindOf(h.Remove(t.Context(), wrong)))
}

// SH-30: a share that has moved is mounted where it is now, but not under others who use it.
func TestSH30AShareThatMoved(t *testing.T) {
	t.Parallel()
	h, one, two := begin(t), newServer(), newServer()
	require.NoError(t, h.Mount(t.Context(), h.input(one)))
	h.source = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(h.source, "here"), nil, 0o600))
	require.Equal(t, compute.Conflict, compute.KindOf(h.Mount(t.Context(), h.input(two))))
	require.NoError(t, h.Remove(t.Context(), h.use(two)))
	require.NoError(t, h.Mount(t.Context(), h.input(one)))
	require.Equal(t, 1, h.mounts())
	require.FileExists(t, filepath.Join(h.Path(h.share), "here"))
	require.NoError(t, h.Remove(t.Context(), h.use(one)))
}

// A mount that nobody uses is seen, and can be removed.
func TestAMountThatNobodyUsesIsSeen(t *testing.T) {
	t.Parallel()
	h, server := begin(t), newServer()
	require.NoError(t, h.Mount(t.Context(), h.input(server)))
	h.forgets(server)
	require.Equal(t, []compute.Seen{{Kind: compute.ThingShareMount, Name: compute.ShareUse(h.share, compute.ServerID{})}}, h.seen())
	require.NoError(t, h.Remove(t.Context(), h.use(compute.ServerID{})))
	require.Zero(t, h.mounts())
	require.Empty(t, h.seen())
}

// The mount is made where libvirt's daemon sees it, which may not be where the worker is.
func TestAMountIsMadeWhereLibvirtSeesIt(t *testing.T) {
	t.Parallel()
	h, server := begin(t), newServer()
	pid := h.apart()
	there := func() int { return h.mountsOf(pid) }
	for range 2 {
		require.NoError(t, h.Mount(t.Context(), h.input(server)))
		require.Equal(t, 1, there())
		require.Zero(t, h.mounts())
	}
	require.Len(t, h.seen(), 1)
	require.NoError(t, h.Remove(t.Context(), h.use(server)))
	require.Zero(t, there())
	require.Empty(t, h.seen())
}
