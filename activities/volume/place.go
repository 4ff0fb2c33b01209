package volume

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"strongroom/compute"
)

// mostLinks is how many links a path may lead over, as for the kernel.
const mostLinks = 40

// place opens a folder where libvirt's users may write beside it, and makes what is missing of its path. A link counts only where nobody but root
// can have put it: another one would have root mount the volume where a QEMU that was broken wants it. The folder that is open is the one to
// mount on, whatever its name leads to by then.
func place(path string) (_ *os.File, err error) {
	parts, links := strings.Split(filepath.Clean(path), "/"), 0
	at, err := hold(unix.AT_FDCWD, "/")
	if err != nil {
		return nil, err
	}
	for len(parts) > 0 {
		name := parts[0]
		parts = parts[1:]
		if name == "" {
			continue
		}
		next, err := step(at, name)
		if err == nil {
			_ = at.Close()
			at = next
			continue
		}
		target, isLink := linkOf(at, name)
		if links++; !isLink || links > mostLinks || !isRoots(at) {
			_ = at.Close()
			if isLink {
				err = compute.Errorf(compute.Conflict, "%s leads over a link that a user of the host can have put there: remove it, or name the folder itself", path)
			}
			return nil, err
		}
		parts = append(strings.Split(target, "/"), parts...)
		if filepath.IsAbs(target) {
			_ = at.Close()
			if at, err = hold(unix.AT_FDCWD, "/"); err != nil {
				return nil, err
			}
		}
	}
	return at, nil
}

// step opens a folder in another one, and makes it if it is missing.
func step(at *os.File, name string) (*os.File, error) {
	next, err := hold(int(at.Fd()), name)
	if !errors.Is(err, unix.ENOENT) {
		return next, err
	}
	if err := unix.Mkdirat(int(at.Fd()), name, 0o711); err != nil && !errors.Is(err, unix.EEXIST) { // as libvirt makes them
		return nil, &os.PathError{Op: "mkdir", Path: filepath.Join(at.Name(), name), Err: err}
	}
	return hold(int(at.Fd()), name)
}

func hold(at int, name string) (*os.File, error) {
	fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

func linkOf(at *os.File, name string) (target string, isLink bool) {
	text := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(at.Fd()), name, text)
	return string(text[:max(n, 0)]), err == nil && n > 0
}

// isRoots: only root can have put something into a folder.
func isRoots(dir *os.File) bool {
	var is unix.Stat_t
	return unix.Fstat(int(dir.Fd()), &is) == nil && is.Uid == 0 && is.Mode&0o022 == 0
}
