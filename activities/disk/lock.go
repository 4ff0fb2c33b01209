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
	return lockBy(path, open, func(f *os.File) error { return flock(ctx, f, syscall.LOCK_EX) })
}

// tryLockPath is lockPath for who does not wait: EWOULDBLOCK says that another has the lock.
func tryLockPath(path string, open func() (*os.File, error)) (*os.File, error) {
	return lockBy(path, open, func(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) })
}

func lockBy(path string, open func() (*os.File, error), lock func(*os.File) error) (*os.File, error) {
	for {
		f, err := open()
		if err != nil {
			return nil, err
		}
		if err = lock(f); err != nil {
			f.Close()
			return nil, err
		}
		if leadsTo(path, f) {
			return f, nil
		}
		f.Close()
	}
}

// leadsTo reports whether a path is still that of an open file.
func leadsTo(path string, f *os.File) bool {
	opened, err := f.Stat()
	there, terr := os.Stat(path)
	return err == nil && terr == nil && os.SameFile(opened, there)
}

// lockFile takes the lock of one file in a server's folder, by a file beside it
// that is there only meanwhile. Disks of one server are made side by side. A
// folder that is missing is made, or is fs.ErrNotExist.
func lockFile(ctx context.Context, path string, makeFolder bool) (unlock func(), err error) {
	return lockBeside(path, makeFolder, func(lock string, open func() (*os.File, error)) (*os.File, error) {
		return lockPath(ctx, lock, open)
	})
}

// tryLockFile is lockFile for who does not wait, and makes the folder: EWOULDBLOCK says that
// another has the lock.
func tryLockFile(path string) (unlock func(), err error) { return lockBeside(path, true, tryLockPath) }

func lockBeside(path string, makeFolder bool, by func(string, func() (*os.File, error)) (*os.File, error)) (unlock func(), err error) {
	lock := hidden(path, ".lock")
	f, err := by(lock, func() (*os.File, error) {
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

// flock takes a lock of a file, LOCK_EX or LOCK_SH.
func flock(ctx context.Context, f *os.File, how int) error {
	for {
		err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
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
