package folder

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// ReplaceIn writes a file in a folder to which another user may write, and has it on disk: the old one or the new one is there, whole.
// Nothing that this user has put there is followed out of the folder, or written to.
func ReplaceIn(dir, name string, data []byte, mode fs.FileMode) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	draft := name + ".new"
	if err := root.RemoveAll(draft); err != nil {
		return err
	}
	f, err := root.OpenFile(draft, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if is, err := root.Lstat(name); err == nil && is.IsDir() { // no file takes a folder's place
		if err := root.RemoveAll(name); err != nil {
			return err
		}
	}
	if err := root.Rename(draft, name); err != nil {
		return err
	}
	return SyncNames(root)
}

// SyncNames has the names of what is in a folder on disk.
func SyncNames(root *os.Root) error {
	d, err := root.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// OpenIn opens a file in a folder to which another user may write, and may put another file in its place at any time: which of
// them is opened is not said. Where it is a symbolic link, or no file, the error is ErrNoFile.
func OpenIn(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	for range mostReplaced {
		f, info, err := openOnce(root, name)
		if f != nil || err != nil {
			return f, info, err
		}
	}
	return nil, nil, fmt.Errorf("%s %w", name, ErrNoFile)
}

// mostReplaced is more often than a file is replaced between two calls by anybody who does not mean to.
const mostReplaced = 100

// openOnce is one attempt: with neither a file nor an error, another file has the name by now. A root follows links that stay in
// it, so that what was opened is compared with what has the name.
func openOnce(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	is, err := root.Lstat(name)
	if err != nil {
		return nil, nil, err
	}
	if !is.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s %w", name, ErrNoFile)
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // of a pipe that has the name since nobody may write
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Mode().IsRegular() && os.SameFile(is, info) {
		return f, info, nil
	}
	return nil, nil, errors.Join(err, f.Close())
}

// ErrNoFile says that something is no file.
var ErrNoFile = errors.New("is neither a file nor a folder")

// mostRead is more than any file has that ReadIn is for.
const mostRead = 64 << 10

// ReadIn reads a small file that ReplaceIn may have written.
func ReadIn(dir, name string) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	f, _, err := OpenIn(root, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, mostRead))
}
