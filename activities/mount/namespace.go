package mount

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"strongroom/compute"
)

// where runs do in the mount namespace of libvirt's daemon: the program that serves a share
// to a guest is its child, and sees the mounts that it does.
func (a *Activities) where(ctx context.Context, do func() error) error {
	if a.Daemon == nil {
		return do()
	}
	pid, err := a.Daemon(ctx)
	if err != nil {
		return err
	}
	if pid == 0 { // it is out of this process's sight: in a container beside it
		return do()
	}
	namespace, err := os.Open(fmt.Sprintf("/proc/%d/ns/mnt", pid))
	if errors.Is(err, fs.ErrNotExist) {
		return compute.Errorf(compute.Unavailable, "libvirt's daemon has just ended")
	}
	if err != nil {
		return compute.Errorf(compute.Unavailable, "mounts of libvirt's daemon: %w", err)
	}
	defer func() { _ = namespace.Close() }()
	own, err := os.Stat("/proc/self/ns/mnt")
	if err != nil {
		return compute.Errorf(compute.Unavailable, "mounts of this process: %w", err)
	}
	its, err := namespace.Stat()
	if err != nil {
		return compute.Errorf(compute.Unavailable, "mounts of libvirt's daemon: %w", err)
	}
	if os.SameFile(own, its) {
		return do()
	}
	return onThread(func() error {
		err := unix.Unshare(unix.CLONE_FS) // a thread that shares its working folder may not change namespaces
		if err == nil {
			err = unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNS)
		}
		if err != nil {
			return compute.Errorf(compute.Unavailable, "enter the mounts of libvirt's daemon: %w", err)
		}
		return do()
	})
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

// isMounted reports whether something is mounted at a path.
func isMounted(path string) (bool, error) {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT|unix.AT_STATX_DONT_SYNC, 0, &st)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
}

// isSame reports whether two paths lead to the same folder.
func isSame(one, other string) (bool, error) {
	a, err := os.Stat(one)
	if err != nil {
		return false, err
	}
	b, err := os.Stat(other)
	if err != nil {
		return false, err
	}
	return os.SameFile(a, b), nil
}

// bindMount shows a folder at another path, for reading and writing. What is on it is no
// program of the host's, and no device.
func bindMount(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return unix.ENOTDIR
	}
	if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	if err := unix.Mount("", to, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return errors.Join(err, unmount(to))
	}
	return nil
}

func unmount(path string) error { return unix.Unmount(path, unix.UMOUNT_NOFOLLOW) }
