package disk

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// lockPath takes the lock of a file or folder: an attempt that timed out may
// still be at work here while its successor begins. open opens the path, and
// may make it. The holder of a lock may remove or rename what it locked, so a
// lock counts only while the path still leads to it.
func lockPath(ctx context.Context, path string, open func() (*os.File, error)) (*os.File, error) {
	for {
		f, err := open()
		if err != nil {
			return nil, err
		}
		err = flock(ctx, f)
		if err == nil {
			locked, serr := f.Stat()
			there, terr := os.Stat(path)
			if serr == nil && terr == nil && os.SameFile(locked, there) {
				return f, nil
			}
			if err = serr; terr != nil && !errors.Is(terr, fs.ErrNotExist) {
				err = terr
			}
		}
		f.Close()
		if err != nil {
			return nil, err
		}
	}
}

// lockFile takes the lock of one file in a server's folder, by a file beside it
// that is there only meanwhile. Disks of one server are made side by side. A
// folder that is missing is made, or is fs.ErrNotExist.
func lockFile(ctx context.Context, path string, makeFolder bool) (unlock func(), err error) {
	lock := hidden(path, ".lock")
	f, err := lockPath(ctx, lock, func() (*os.File, error) {
		for {
			f, err := os.OpenFile(lock, os.O_CREATE|os.O_RDWR, 0o600)
			if !makeFolder || !errors.Is(err, fs.ErrNotExist) {
				return f, err
			}
			// Also when a delete of the folder's last file has just removed it.
			if err := os.Mkdir(filepath.Dir(path), 0o711); err != nil && !errors.Is(err, fs.ErrExist) {
				return nil, err
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return func() {
		os.Remove(lock)
		f.Close()
	}, nil
}

func flock(ctx context.Context, f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// syncDir makes the names in a folder last.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
