package folder

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Draft is a file in the making. It has no name that counts until Keep. While
// its writer lives it holds a lock on it, which Tidy of any process respects.
type Draft struct {
	*os.File
	folder Folder
	kept   bool
}

// Draft begins a file, mode 0600. The caller defers Discard.
func (f Folder) Draft() (*Draft, error) {
	for {
		file, err := os.CreateTemp(f.Path, tempPrefix+"*")
		if err != nil {
			return nil, err
		}
		d := &Draft{File: file, folder: f}
		locked, err := flock(file)
		if err != nil {
			d.Discard()
			return nil, err
		}
		// A Tidy may have taken it for abandoned before the lock was on it.
		if locked && linked(file) {
			return d, nil
		}
		_ = file.Close()
	}
}

func linked(file *os.File) bool {
	var info unix.Stat_t
	return unix.Fstat(int(file.Fd()), &info) == nil && info.Nlink > 0
}

// Keep makes the draft the file of that name, in place of an older one, lastingly.
func (d *Draft) Keep(name string) error {
	if err := d.Sync(); err != nil {
		return err
	}
	if err := os.Rename(d.Name(), d.folder.File(name)); err != nil {
		return err
	}
	d.kept = true
	return errors.Join(d.folder.Sync(), d.Close())
}

// Discard throws the draft away; after Keep it does nothing.
func (d *Draft) Discard() {
	if d.kept {
		return
	}
	_ = os.Remove(d.Name()) // what stays is cleared by the next Tidy
	_ = d.Close()
}

// Tidy removes the drafts of writers that died.
func (f Folder) Tidy() error {
	left, err := filepath.Glob(f.File(tempPrefix + "*"))
	if err != nil {
		return err
	}
	for _, path := range left {
		if err := removeAbandoned(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

func removeAbandoned(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	abandoned, err := flock(file)
	if err != nil || !abandoned {
		return err
	}
	return os.Remove(path)
}
