package mount_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"strongroom/compute"
)

// serveSilently mounts a file system by FUSE whose program reads what it is asked, and answers nothing
// but the greeting, until it is released. The kernel has whoever asks wait, also when it is killed.
func serveSilently(t *testing.T, point, source string) (release func()) {
	t.Helper()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	require.NoError(t, unix.Mount(source, point, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fd)))
	request := make([]byte, 1<<17)
	_, err = unix.Read(fd, request)
	require.NoError(t, err)
	require.Equal(t, uint32(26), binary.NativeEndian.Uint32(request[4:]), "the greeting, FUSE_INIT")
	answer := make([]byte, 16+64)
	binary.NativeEndian.PutUint32(answer, uint32(len(answer)))
	copy(answer[8:16], request[8:16])                   // to which request
	binary.NativeEndian.PutUint32(answer[16:], 7)       // the protocol's version
	binary.NativeEndian.PutUint32(answer[20:], 31)      // and its minor one
	binary.NativeEndian.PutUint32(answer[16+20:], 4096) // max_write
	_, err = unix.Write(fd, answer)
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			if n, err := unix.Read(fd, request); n <= 0 && err != unix.EINTR && err != unix.EAGAIN {
				return // it is unmounted
			}
		}
	}()
	released := false
	release = func() {
		if !released {
			released = true
			_ = unix.Unmount(point, unix.MNT_FORCE) // busy, and yet whoever waits gets an error
			for unix.Unmount(point, unix.MNT_DETACH) == nil {
			}
			<-done
			require.NoError(t, unix.Close(fd))
		}
	}
	t.Cleanup(release)
	return release
}

// A storage that does not answer holds up nobody: who mounts is told, and no second program waits for
// it, though one that waits for FUSE cannot be ended.
func TestAStorageThatDoesNotAnswer(t *testing.T) {
	h, server := beginOnFuse(t), newServer()
	require.NoError(t, os.MkdirAll(h.Path(h.share), 0o700))
	release := serveSilently(t, h.Path(h.share), "silent")
	looking := func() []int { return processes(t, "find", h.Path(h.share)) }
	for range 2 {
		err := h.Mount(t.Context(), h.input(server))
		require.Equal(t, compute.Unavailable, compute.KindOf(err), "%v", err)
		require.Contains(t, err.Error(), "does not answer")
		require.Len(t, looking(), 1, "of the two tries")
	}
	release()
	require.Eventually(t, func() bool { return len(looking()) == 0 }, time.Minute, 10*time.Millisecond)
	require.NoError(t, h.Mount(t.Context(), h.input(server)))
	require.NoError(t, h.Remove(t.Context(), h.use(server)))
}

// SH-14: a ceph-fuse was killed while a program that it had started has its /dev/fuse open, so that the kernel waits for its answer.
// Its mount is dead all the same and is made anew, and nobody waits any more; while it lives, its storage may answer yet.
func TestSH14ACephFuseThatEndedAndDoesNotAnswer(t *testing.T) {
	h, server := beginOnFuse(t), newServer()
	require.NoError(t, h.Mount(t.Context(), h.input(server)))
	lives, point := h.pid(), h.Path(h.share)
	serveSilently(t, point, "ceph-fuse") // on top: what the kernel has of it
	looking := func() []int { return processes(t, "find", point) }
	err := h.Mount(t.Context(), h.input(server))
	require.Equal(t, compute.Unavailable, compute.KindOf(err), "it lives: %v", err)
	require.Len(t, looking(), 1)

	require.NoError(t, syscall.Kill(lives, syscall.SIGKILL))
	require.Eventually(t, func() bool { return !alive(lives) }, time.Minute, 10*time.Millisecond)
	require.NoError(t, h.Mount(t.Context(), h.input(server)))
	require.NotEqual(t, lives, h.pid())
	require.Eventually(t, func() bool { return len(looking()) == 0 }, time.Minute, 10*time.Millisecond)
	_, err = os.ReadDir(point)
	require.NoError(t, err)
	require.NoError(t, h.Remove(t.Context(), h.use(server)))
}

// One share's mount that takes its time holds up no other's.
func TestSharesAreMountedAtOnce(t *testing.T) {
	h, server := beginOnFuse(t), newServer()
	require.NoError(t, os.WriteFile(filepath.Join(h.control, "wait-asking"), nil, 0o600))
	done := make(chan error, 1)
	go func() { done <- h.Mount(t.Context(), h.input(server)) }()
	var stopped []string
	require.Eventually(t, func() bool {
		stopped, _ = filepath.Glob(filepath.Join(h.control, "asking-*"))
		return len(stopped) == 1
	}, time.Minute, 10*time.Millisecond)

	other := h.input(server)
	other.Share = compute.ShareID{UUID: uuid.New()}
	require.NoError(t, h.Mount(t.Context(), other))
	require.Empty(t, done, "the first one goes on")
	require.NoError(t, h.Remove(t.Context(), compute.Removal{Thing: compute.Thing{Kind: compute.ThingShareMount, Name: compute.ShareUse(other.Share, server)}}))

	require.NoError(t, os.Remove(stopped[0]))
	require.NoError(t, <-done)
	require.NoError(t, h.Remove(t.Context(), h.use(server)))
}

// A mount that somebody is just looking at is ended when he is done, and one that stays in use is not.
func TestAMountThatIsBusy(t *testing.T) {
	h, server := beginOnFuse(t), newServer()
	require.NoError(t, h.Mount(t.Context(), h.input(server)))
	letter, err := os.Create(filepath.Join(h.Path(h.share), "letter"))
	require.NoError(t, err)
	err = h.Remove(t.Context(), h.use(server))
	require.Equal(t, compute.Conflict, compute.KindOf(err), "%v", err)
	require.Equal(t, 1, h.mounts())
	soon := time.AfterFunc(300*time.Millisecond, func() { _ = letter.Close() })
	defer soon.Stop()
	require.NoError(t, h.Remove(t.Context(), h.use(server)))
	require.Zero(t, h.mounts())
}
