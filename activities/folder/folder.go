// Package folder is the ground of the local adapters: a directory, closed to
// others, in which a file is whole or absent whatever crashes, and in which
// writers take turns.
package folder

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

const (
	lockFile   = ".lock"
	tempPrefix = ".new-"
)

// Folder is a directory of files that strongroom alone writes. Names that begin
// with a dot are the folder's own.
type Folder struct{ Path string }

// Open makes sure that the directory exists, mode 0700, and clears what writers
// that died left in it.
func Open(path string) (Folder, error) {
	f := Folder{Path: path}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return f, err
	}
	if err := os.Chmod(path, 0o700); err != nil {
		return f, err
	}
	return f, f.Tidy()
}

// File is the path of a file in the folder.
func (f Folder) File(name string) string { return filepath.Join(f.Path, name) }

// Lock takes the folder's lock, which excludes other goroutines and other
// processes alike: a flock belongs to the open file, and each call opens anew.
// It waits until ctx ends.
func (f Folder) Lock(ctx context.Context) (unlock func(), err error) { return f.lock(ctx, flock) }

// LockPart takes the lock of one thing in the folder, of which only the name is known: it excludes
// whoever takes that of the same name, and not who takes the whole folder's. Two names may share one.
func (f Folder) LockPart(ctx context.Context, name string) (unlock func(), err error) {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	part := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: int64(h.Sum64() >> 2), Len: 1}
	return f.lock(ctx, func(file *os.File) (bool, error) {
		err := unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, &part)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EINTR) {
			return false, nil
		}
		return err == nil, err
	})
}

func (f Folder) lock(ctx context.Context, try func(*os.File) (bool, error)) (unlock func(), err error) {
	file, err := os.OpenFile(f.File(lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		taken, err := try(file)
		if taken {
			return func() { _ = file.Close() }, nil
		}
		if err != nil {
			return nil, errors.Join(err, file.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("wait for the lock of %s: %w", f.Path, ctx.Err()), file.Close())
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// flock tries to lock a file; false and no error means that another holds it.
func flock(file *os.File) (bool, error) {
	err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
		return false, nil
	}
	return err == nil, err
}

// Write makes the file name hold data, mode 0600, lastingly. After an error or
// a crash it holds what it held before, or all of data.
func (f Folder) Write(name string, data []byte) error {
	d, err := f.Draft()
	if err != nil {
		return err
	}
	defer d.Discard()
	if _, err := d.Write(data); err != nil {
		return err
	}
	return d.Keep(name)
}

// Remove makes sure, lastingly, that there is no file of these names.
func (f Folder) Remove(names ...string) error {
	for _, name := range names {
		if err := os.Remove(f.File(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return f.Sync()
}

// Sync makes the folder's entries last.
func (f Folder) Sync() error {
	d, err := os.Open(f.Path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
