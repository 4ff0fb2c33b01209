package mount_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"strongroom/activities/mount"
	"strongroom/activities/secret"
	"strongroom/compute"
	"strongroom/deploy/guest/vm"
	"strongroom/integration/seed"
)

// cephFuse is a ceph-fuse that mounts a file system in memory and stops where a test wants it to:
// what the real one shows too seldom. As the real one it goes into the background by a fork, notes
// its id in a file that it holds a lock on, and ends some time after its mount.
//
// A file "wait-<stage>" in the folder stops the next one there, and becomes "<stage>-<its id>"
// until the test removes it; "hold-<id>" keeps one from ending, which "ended-<id>" says.
const cephFuse = `#!/bin/bash
# ceph-fuse -c CONF --id USER POINT
control=$(dirname "$0") conf=$2 point=$5
stop() {
	mv "$control/wait-$1" "$control/$1-$BASHPID" 2>/dev/null || return
	while [ -e "$control/$1-$BASHPID" ]; do sleep 0.05 9>&-; done # the lock is this process's alone
}
for log in log_to_stderr err_to_stderr; do # in the background the real one writes that into its file system's pipe
	grep -qx "$log = false" "$conf" || exit 1
done
stop asking
pid_file=$(sed -n 's/^pid_file = //p' "$conf")
serve() {
	exec 9>>"$pid_file"
	flock -n 9 || exit 1
	echo $BASHPID >"$pid_file"
	stop connecting
	mount -t tmpfs fuse "$point" || exit 1
	device=$(stat -c %d "$point")
	touch "$control/mounted-$$"
	while [ "$(stat -c %d "$point" 2>/dev/null)" = "$device" ] || [ -e "$control/hold-$BASHPID" ]; do sleep 0.05 9>&-; done
	touch "$control/ended-$BASHPID"
}
serve &
until [ -e "$control/mounted-$$" ]; do
	kill -0 $! 2>/dev/null || exit 1
	sleep 0.05
done
stop mounted
exit 0
`

// fuseHost is a host with that ceph-fuse.
type fuseHost struct {
	*host
	memory, control string
}

func (h *fuseHost) Export(context.Context, compute.Credential, compute.ShareID) (mount.Export, error) {
	return mount.Export{Path: "192.0.2.1:/volumes/one", User: "guests", Key: secret.New([]byte("key"))}, nil
}

// again is another process of the same host.
func (h *fuseHost) again() *mount.Activities {
	a, err := mount.New(mount.Config{Dir: h.Dir, Exports: h, Guests: h.host, Memory: h.memory})
	require.NoError(h.t, err)
	return a
}

func (h *fuseHost) input(server compute.ServerID) mount.Input {
	in := h.host.input(server)
	in.Protocol = compute.CephFSShare
	return in
}

func beginOnFuse(t *testing.T) *fuseHost {
	t.Helper()
	h := &fuseHost{host: begin(t), memory: t.TempDir(), control: t.TempDir()}
	h.host.Activities = h.again()
	h.program("ceph-fuse", cephFuse)
	t.Setenv("PATH", h.control+":"+os.Getenv("PATH"))
	t.Cleanup(func() {
		left, err := filepath.Glob(filepath.Join(h.control, "*-*[0-9]")) // lets all go on that wait
		require.NoError(t, err)
		for _, file := range left {
			require.NoError(t, os.RemoveAll(file))
		}
		require.Eventually(t, func() bool {
			for unix.Unmount(h.Path(h.share), unix.MNT_DETACH) == nil {
			}
			return len(h.serving()) == 0
		}, time.Minute, 50*time.Millisecond)
	})
	return h
}

func (h *fuseHost) program(name, text string) {
	h.t.Helper()
	require.NoError(h.t, os.WriteFile(filepath.Join(h.control, name), []byte(text), 0o700))
}

// serving gives the processes that serve the share, or are about to.
func (h *fuseHost) serving() []int {
	h.t.Helper()
	return processes(h.t, "/ceph-fuse", h.Path(h.share))
}

// processes gives those that have arguments which end so.
func processes(t *testing.T, ends ...string) (pids []int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, file := range all {
		text, err := os.ReadFile(file)
		if err != nil || slices.ContainsFunc(ends, func(end string) bool { return !strings.Contains(string(text), end+"\x00") }) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		require.NoError(t, err)
		pids = append(pids, pid)
	}
	return pids
}

// A mount that others use stays when it could not be looked at. One that has died is made anew, and
// its process is waited for, too, which may still write.
func TestAMountIsDeadOnlyWhereItCannotBeRead(t *testing.T) {
	h, one, two := beginOnFuse(t), newServer(), newServer()
	require.NoError(t, h.Mount(t.Context(), h.input(one)))
	first := h.pid()
	letter := filepath.Join(h.Path(h.share), "letter")
	require.NoError(t, os.WriteFile(letter, nil, 0o600))
	for name, find := range map[string]string{
		"killed":                 "kill -9 $$",
		"no library":             "exit 127",
		"no memory":              "echo 'find: memory exhausted' >&2; exit 1",
		"too many open files":    "echo \"find: '/x': Too many open files in system\" >&2; exit 1",
		"no program at all":      "",
		"an illegal instruction": "kill -ILL $$",
	} {
		h.program("find", "#!/bin/sh\n"+find+"\n")
		if find == "" {
			h.program("find", "#!/no/such/shell\n")
		}
		err := h.Mount(t.Context(), h.input(two))
		require.Equal(t, compute.Unavailable, compute.KindOf(err), "%s: %v", name, err)
		require.NotContains(t, err.Error(), h.Dir, name)
		require.Equal(t, 1, h.mounts(), name)
		require.Equal(t, first, h.pid(), name)
		require.FileExists(t, letter, name)
	}

	hold := filepath.Join(h.control, fmt.Sprintf("hold-%d", first)) // as a guest's open file does
	require.NoError(t, os.WriteFile(hold, nil, 0o600))
	h.program("find", "#!/bin/sh\necho \"find: '/x': Transport endpoint is not connected\" >&2; exit 1\n")
	require.NoError(t, h.Mount(t.Context(), h.input(two)))
	require.NoError(t, os.Remove(filepath.Join(h.control, "find")))
	require.NoError(t, h.Mount(t.Context(), h.input(two)))
	require.Equal(t, 1, h.mounts())
	require.NoFileExists(t, letter)
	require.NotEqual(t, first, h.pid())
	require.True(t, alive(first))

	require.NoError(t, h.Remove(t.Context(), h.use(one)))
	release := time.AfterFunc(500*time.Millisecond, func() { _ = os.Remove(hold) })
	defer release.Stop()
	require.NoError(t, h.Remove(t.Context(), h.use(two)))
	require.FileExists(t, filepath.Join(h.control, fmt.Sprintf("ended-%d", first)))
	require.Zero(t, h.mounts())
	require.NoDirExists(t, filepath.Dir(h.Path(h.share)))
	require.Empty(t, h.serving())
}

// A worker that is killed while ceph-fuse makes a mount leaves no second one, no key, and no mount
// of which programs could be run.
func TestAWorkerIsKilledWhileCephFuseMounts(t *testing.T) {
	for _, stage := range []string{"asking", "connecting", "mounted"} {
		for _, then := range []string{"mounted", "removed"} {
			t.Run(stage+", then "+then, func(t *testing.T) {
				h, server := beginOnFuse(t), newServer()
				require.NoError(t, os.WriteFile(filepath.Join(h.control, "wait-"+stage), nil, 0o600))
				worker := exec.Command(os.Args[0])
				worker.Env = append(os.Environ(), workerOf+"="+strings.Join([]string{h.Dir, h.memory, h.share.String(), server.String()}, ":"))
				require.NoError(t, worker.Start())
				var stopped string
				require.Eventually(t, func() bool {
					found, err := filepath.Glob(filepath.Join(h.control, stage+"-*"))
					if err != nil || len(found) == 0 {
						return false
					}
					stopped = found[len(found)-1]
					_, err = os.Stat(filepath.Join(h.control, "wait-"+stage))
					return os.IsNotExist(err)
				}, time.Minute, 10*time.Millisecond)
				require.NoError(t, worker.Process.Kill())
				require.Error(t, worker.Wait())
				begun := h.serving()
				require.NotEmpty(t, begun)
				left, err := os.ReadDir(h.memory)
				require.NoError(t, err)
				require.NotEmpty(t, left)

				if then == "mounted" {
					require.NoError(t, h.Mount(t.Context(), h.input(server)))
					var fs unix.Statfs_t
					require.NoError(t, unix.Statfs(h.Path(h.share), &fs))
					require.Equal(t, int64(unix.ST_NOEXEC|unix.ST_NODEV|unix.ST_NOSUID), fs.Flags&(unix.ST_NOEXEC|unix.ST_NODEV|unix.ST_NOSUID))
					if stage != "mounted" {
						for _, pid := range begun {
							require.False(t, alive(pid))
						}
					}
					require.Equal(t, 1, h.mounts())
					left, err := os.ReadDir(h.memory)
					require.NoError(t, err)
					require.Empty(t, left)
				}
				require.NoError(t, os.RemoveAll(stopped))
				require.NoError(t, h.Remove(t.Context(), h.use(server)))
				require.Zero(t, h.mounts())
				require.Eventually(t, func() bool { return len(h.serving()) == 0 }, time.Minute, 10*time.Millisecond)
				require.NoDirExists(t, filepath.Dir(h.Path(h.share)))
				left, err = os.ReadDir(h.memory)
				require.NoError(t, err)
				require.Empty(t, left)
			})
		}
	}
}

// workerOf has this program be a worker that mounts a share, to be killed.
const workerOf = "STRONGROOM_TEST_MOUNT_WORKER"

func TestMain(m *testing.M) {
	words := strings.Split(os.Getenv(workerOf), ":")
	if len(words) != 4 {
		seed.Deep("shares", TestSH14ADeadMountIsMadeAnew, TestSH12AMountOfCephFSThatFails, TestSH18CephFSByTheKernel, TestSH18AShareOfCephFSIsMounted,
			TestAMountOfCephFSIsMadeWhereLibvirtSeesIt)
		os.Exit(vm.Main(m))
	}
	share, server := compute.ShareID{UUID: uuid.MustParse(words[2])}, compute.ServerID{UUID: uuid.MustParse(words[3])}
	h := &fuseHost{host: &host{share: share}}
	a, err := mount.New(mount.Config{Dir: words[0], Exports: h, Guests: h.host, Memory: words[1]})
	if err == nil {
		err = a.Mount(context.Background(), h.input(server))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
