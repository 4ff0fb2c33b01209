package local

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/google/uuid"

	"strongroom/activities/folder"
	"strongroom/compute"
)

// files is where the secrets lie. Whoever adds or removes one holds the
// folder's lock; readers need none.
type files struct{ folder.Folder }

// entry is a secret as its file's name tells it.
type entry struct {
	id  compute.SecretID
	tag string
}

func (e entry) file() string { return e.id.String() + "." + e.tag }

func (f files) lock(ctx context.Context) (unlock func(), err error) {
	unlock, err = f.Lock(ctx)
	if err != nil {
		return nil, compute.Errorf(compute.Unavailable, "lock the secrets: %w", err)
	}
	return unlock, nil
}

// entries lists the secrets by their files' names, in the order of their ids.
func (f files) entries() ([]entry, error) {
	listed, err := os.ReadDir(f.Path)
	if err != nil {
		return nil, compute.Errorf(compute.Unavailable, "list the secrets: %w", err)
	}
	var out []entry
	for _, file := range listed {
		name, tag, ok := strings.Cut(file.Name(), ".")
		id, err := uuid.Parse(name)
		if e := (entry{id: compute.SecretID{UUID: id}, tag: tag}); ok && err == nil && e.file() == file.Name() {
			out = append(out, e)
		}
	}
	return out, nil
}

func (f files) read(e entry) (record, error) {
	data, err := os.ReadFile(f.File(e.file()))
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

func (f files) write(e entry, r record) error {
	if err := f.Write(e.file(), r.encode()); err != nil {
		return compute.Errorf(compute.Unavailable, "store secret %s: %w", e.id, err)
	}
	return nil
}

// remove unlinks the secrets and makes that last, so that a row in the ledger
// may be closed on it.
func (f files) remove(doomed []entry) error {
	names := make([]string, len(doomed))
	for i, e := range doomed {
		names[i] = e.file()
	}
	if err := f.Remove(names...); err != nil {
		return compute.Errorf(compute.Unavailable, "delete secrets: %w", err)
	}
	return nil
}

func (f files) sync() error {
	if err := f.Sync(); err != nil {
		return compute.Errorf(compute.Unavailable, "sync the secrets' folder: %w", err)
	}
	return nil
}
