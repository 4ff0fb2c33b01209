package folder

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"
)

// storageName is the file with the id of the storage that a folder is on. Hosts that share the folder find the same.
const storageName = ".strongroom-storage"

// ErrStorage says that the file with the id of a storage does not hold one.
var ErrStorage = errors.New("does not hold a uuid")

// Storage gives the id of the storage that a folder is on, and makes one where there is none.
// Of several hosts that make one at once all get the same.
func Storage(dir string) (uuid.UUID, error) {
	path := filepath.Join(dir, storageName)
	id, err := readStorage(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return id, err
	}
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return uuid.Nil, err
	}
	draft := path + "." + uuid.NewString()
	defer func() { _ = os.Remove(draft) }()
	if err := writeSynced(draft, []byte(uuid.NewString()+"\n")); err != nil {
		return uuid.Nil, err
	}
	// A link is made whole, or not at all where another host was first.
	if err := os.Link(draft, path); err != nil && !errors.Is(err, fs.ErrExist) {
		return uuid.Nil, err
	}
	if err := (Folder{Path: dir}).Sync(); err != nil {
		return uuid.Nil, err
	}
	return readStorage(path)
}

// StorageOf returns the id of the storage that a folder is on. fs.ErrNotExist: it has none yet, or the folder of another storage is in its place.
func StorageOf(dir string) (uuid.UUID, error) { return readStorage(filepath.Join(dir, storageName)) }

func readStorage(path string) (uuid.UUID, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return uuid.Nil, err
	}
	id, err := uuid.ParseBytes([]byte(strings.TrimSpace(string(text))))
	if err != nil || id == uuid.Nil {
		return uuid.Nil, &fs.PathError{Op: "read", Path: path, Err: ErrStorage}
	}
	return id, nil
}

// writeSynced writes a file that others may read, and has it on disk. Its name is not, nor is it whole after a crash.
func writeSynced(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}
