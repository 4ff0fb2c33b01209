package local

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"strongroom/compute"
)

const (
	lockFile   = ".lock"
	tempPrefix = ".new-"
)

// folder is where the secrets' files lie. Whoever adds or removes one holds
// its lock; readers need none.
type folder struct{ path string }

// entry is a secret as its file's name tells it.
type entry struct {
	id  compute.SecretID
	tag string
}

func (e entry) file() string { return e.id.String() + "." + e.tag }

// lock takes the folder's lock, which excludes other goroutines and other
// processes alike: a flock belongs to the open file, and each call opens anew.
func (f folder) lock(ctx context.Context) (unlock func(), err error) {
	file, err := os.OpenFile(filepath.Join(f.path, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, compute.Errorf(compute.Unavailable, "open the secrets' lock: %w", err)
	}
	for {
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			_ = file.Close()
			return nil, compute.Errorf(compute.Unavailable, "lock the secrets: %w", err)
		}
		select {
		case <-ctx.Done():
			_ = file.Close()
			return nil, compute.Errorf(compute.Unavailable, "wait for the secrets' lock: %w", ctx.Err())
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// entries lists the secrets by their files' names.
func (f folder) entries() ([]entry, error) {
	files, err := os.ReadDir(f.path)
	if err != nil {
		return nil, compute.Errorf(compute.Unavailable, "list the secrets: %w", err)
	}
	var out []entry
	for _, file := range files {
		name, tag, ok := strings.Cut(file.Name(), ".")
		id, err := uuid.Parse(name)
		if e := (entry{id: compute.SecretID{UUID: id}, tag: tag}); ok && err == nil && e.file() == file.Name() {
			out = append(out, e)
		}
	}
	return out, nil
}

// tidy removes what a crash left half written and lists the secrets. Only the
// holder of the lock may call it: an unfinished file is then nobody's.
func (f folder) tidy() ([]entry, error) {
	left, err := filepath.Glob(filepath.Join(f.path, tempPrefix+"*"))
	if err != nil {
		return nil, compute.Errorf(compute.Unavailable, "look for unfinished secrets: %w", err)
	}
	for _, file := range left {
		if err := os.Remove(file); err != nil {
			return nil, compute.Errorf(compute.Unavailable, "remove an unfinished secret: %w", err)
		}
	}
	return f.entries()
}

func (f folder) read(e entry) (record, error) {
	data, err := os.ReadFile(filepath.Join(f.path, e.file()))
	if errors.Is(err, fs.ErrNotExist) {
		return record{}, compute.Errorf(compute.NotFound, "secret %s was not found", e.id)
	}
	if err != nil {
		return record{}, compute.Errorf(compute.Unavailable, "read secret %s: %w", e.id, err)
	}
	r, ok := decode(data)
	if !ok || r.ID != e.id || tagOf(r.ProjectID, r.Name) != e.tag {
		return record{}, compute.Errorf(compute.Corrupt, "the file of secret %s is damaged", e.id)
	}
	return r, nil
}

func (f folder) write(e entry, r record) error {
	if err := writeFile(f.path, e.file(), r.encode()); err != nil {
		return compute.Errorf(compute.Unavailable, "store secret %s: %w", e.id, err)
	}
	return nil
}

// remove unlinks the secrets and makes that last, so that a row in the ledger
// may be closed on it.
func (f folder) remove(doomed []entry) error {
	for _, e := range doomed {
		if err := os.Remove(filepath.Join(f.path, e.file())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return compute.Errorf(compute.Unavailable, "delete secret %s: %w", e.id, err)
		}
	}
	return f.sync()
}

func (f folder) sync() error {
	if err := syncDir(f.path); err != nil {
		return compute.Errorf(compute.Unavailable, "sync the secrets' folder: %w", err)
	}
	return nil
}
