package mount

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"strongroom/compute"
)

// place is a mount namespace, in which the thread is. What /proc has there may be of other
// processes than this one's, so that both are held open from before.
type place struct {
	of   *os.File // the folder in /proc of a process that is there
	proc *os.File // this process's own /proc
}

// where runs do in the mount namespace of libvirt's daemon: the program that serves a share
// to a guest is its child, and sees the mounts that it does.
func (a *Activities) where(ctx context.Context, do func(p place) error) error {
	pid := 0
	if a.Daemon != nil {
		var err error
		if pid, err = a.Daemon(ctx); err != nil {
			return err
		}
	}
	proc, err := os.Open("/proc")
	if err != nil {
		return compute.Errorf(compute.Unavailable, "mounts of this process: %w", err)
	}
	defer func() { _ = proc.Close() }()
	if pid == 0 { // it is out of this process's sight, in a container beside it, or there is none
		pid = os.Getpid()
	}
	of, err := os.Open(fmt.Sprintf("/proc/%d", pid))
	if errors.Is(err, fs.ErrNotExist) {
		return compute.Errorf(compute.Unavailable, "libvirt's daemon has just ended")
	}
	if err != nil {
		return compute.Errorf(compute.Unavailable, "mounts of libvirt's daemon: %w", err)
	}
	defer func() { _ = of.Close() }()
	p := place{of, proc}
	namespace, own, err := namespaces(of)
	if err != nil {
		return compute.Errorf(compute.Unavailable, "mounts of libvirt's daemon: %w", err)
	}
	defer func() { _ = namespace.Close() }()
	if own {
		return do(p)
	}
	return onThread(func() error {
		err := unix.Unshare(unix.CLONE_FS) // a thread that shares its working folder may not change namespaces
		if err == nil {
			err = unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNS)
		}
		if err != nil {
			return compute.Errorf(compute.Unavailable, "enter the mounts of libvirt's daemon: %w", err)
		}
		return do(p)
	})
}

// namespaces opens the mount namespace of a process, and says whether it is this one's own.
func namespaces(of *os.File) (namespace *os.File, own bool, err error) {
	if namespace, err = openIn(of, "ns/mnt"); err != nil {
		return nil, false, err
	}
	mine, err := os.Stat("/proc/self/ns/mnt")
	if err != nil {
		return nil, false, errors.Join(err, namespace.Close())
	}
	its, err := namespace.Stat()
	if err != nil {
		return nil, false, errors.Join(err, namespace.Close())
	}
	return namespace, os.SameFile(mine, its), nil
}

func openIn(dir *os.File, name string) (*os.File, error) {
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

func readIn(dir *os.File, name string) ([]byte, error) {
	f, err := openIn(dir, name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(f)
}

// onThread runs do on a thread that ends with it, so that nobody else runs in its namespace. The
// process's first thread does not end: it is kept out of the way.
func onThread(do func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if unix.Gettid() == unix.Getpid() {
			done <- onThread(do)
			runtime.UnlockOSThread()
			return
		}
		done <- do()
	}()
	return <-done
}

// isMounted reports whether something is mounted at a path. It asks nobody who may not answer:
// not what is mounted there.
func (p place) isMounted(path string) (bool, error) {
	_, mounted, err := p.mountAt(path)
	return mounted, err
}

// kernelMount is what the kernel says of a mount: what is mounted, and the options of its file system.
type kernelMount struct{ source, options string }

// option gives the value of an option; "": it has none.
func (m kernelMount) option(name string) string {
	for option := range strings.SplitSeq(m.options, ",") {
		if value, is := strings.CutPrefix(option, name+"="); is {
			return value
		}
	}
	return ""
}

// mountAt gives what the kernel says that is mounted at a path, on top.
func (p place) mountAt(path string) (on kernelMount, mounted bool, err error) {
	text, err := readIn(p.of, "mountinfo")
	if err != nil {
		return kernelMount{}, false, err
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 4 && unescaped.Replace(fields[4]) == path {
			mounted = true
			if end := slices.Index(fields, "-"); end > 0 && len(fields) > end+3 { // "… - <type> <source> <options>"
				on = kernelMount{unescaped.Replace(fields[end+2]), fields[end+3]}
			}
		}
	}
	return on, mounted, nil
}

// serves reports whether a process of this one's namespace is the ceph-fuse of a mount point. One
// that has ended, and that nobody has collected yet, has no arguments.
func (p place) serves(pid int, point string) bool { return p.has(pid, point) }

// has reports whether a process has an argument.
func (p place) has(pid int, argument string) bool {
	text, err := readIn(p.proc, strconv.Itoa(pid)+"/cmdline")
	return err == nil && bytes.Contains(text, []byte(argument+"\x00"))
}

// kill kills processes of this one's namespace, and says how many there were.
func (p place) kill(which func(pid int) bool) (found int, err error) {
	proc, err := openIn(p.proc, ".")
	if err != nil {
		return 0, err
	}
	names, err := proc.Readdirnames(-1)
	if err := errors.Join(err, proc.Close()); err != nil {
		return 0, err
	}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || !which(pid) {
			continue
		}
		killed, err := killIf(pid, which)
		if err != nil {
			return found, err
		}
		if killed {
			found++
		}
	}
	return found, nil
}

// killIf kills a process, and no other one that has its id since.
func killIf(pid int, which func(pid int) bool) (bool, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = unix.Close(fd) }()
	if !which(pid) {
		return false, nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return false, err
	}
	return true, nil
}

// unescaped reads a path of the table of mounts.
var unescaped = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// harmless sees to it that what is on a mount is no program of the host's, and no device. One of
// which that cannot be said is ended.
func harmless(point string) error {
	if err := unix.Mount("", point, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return errors.Join(err, unmount(point))
	}
	return nil
}

func unmount(path string) error { return unix.Unmount(path, unix.UMOUNT_NOFOLLOW) }

// busyPatience is how long a mount may be busy: ceph-fuse looks at its own right after it was made.
const busyPatience = 5 * time.Second

// unmountIdle is unmount that waits for whoever is just looking at the mount.
func unmountIdle(ctx context.Context, path string) error {
	for end := time.Now().Add(busyPatience); ; {
		err := unmount(path)
		if !errors.Is(err, unix.EBUSY) || time.Now().After(end) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// detach is unmount of what cannot be used any more, whoever has it open. With force, whoever waits for its storage gets an error.
func detach(path string, force bool) error {
	flags := unix.UMOUNT_NOFOLLOW | unix.MNT_DETACH
	if force {
		flags |= unix.MNT_FORCE
	}
	return unix.Unmount(path, flags)
}
