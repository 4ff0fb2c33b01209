package disk

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	letGoPatience = 30 * time.Second
	ownerPatience = 5 * time.Second
	letGoPoll     = 50 * time.Millisecond
)

// letGo waits until QEMU and libvirt have let a file go, and looks at it. QEMU writes
// the last of it when it closes it, and libvirt gives it back to its owner after that:
// both a moment after they say that the job is done. What libvirt does not come to,
// since it died, is done here: it would take the file for one in use, by its old name.
func (a *Activities) letGo(ctx context.Context, path, format string) (imageInfo, error) {
	i, err := a.closed(ctx, path, format)
	for begin := time.Now(); err == nil && time.Since(begin) < ownerPatience && ctx.Err() == nil; time.Sleep(letGoPoll) {
		var mine bool
		if mine, err = isMine(path); mine {
			return i, nil
		}
	}
	if err != nil {
		return i, err
	}
	return i, errors.Join(os.Chown(path, os.Getuid(), os.Getgid()), forgetLabels(path), ctx.Err())
}

// closed waits until QEMU has let a file go, and looks at it.
func (a *Activities) closed(ctx context.Context, path, format string) (imageInfo, error) {
	i, err := a.idle(ctx, path, format)
	for begin := time.Now(); says(err, inUse) && time.Since(begin) < letGoPatience && ctx.Err() == nil; {
		time.Sleep(letGoPoll)
		i, err = a.idle(ctx, path, format)
	}
	return i, err
}

func isMine(path string) (bool, error) {
	info, err := os.Stat(path)
	if err != nil {
		return false, err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(owner.Uid) == os.Getuid(), nil
}

// forgetLabels removes what libvirt notes at a file of who used it.
func forgetLabels(path string) error {
	names := make([]byte, 4096)
	n, err := unix.Listxattr(path, names)
	if errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range strings.Split(string(names[:n]), "\x00") {
		if strings.HasPrefix(name, "trusted.libvirt.") {
			err = errors.Join(err, unix.Removexattr(path, name))
		}
	}
	return err
}
