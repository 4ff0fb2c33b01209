package local

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"

	"strongroom/activities/folder"
	"strongroom/activities/image"
	"strongroom/compute"
)

const recordSuffix = ".json"

// files is where records and data lie. Whoever adds, changes or removes one
// holds the folder's lock; readers need none.
type files struct{ folder.Folder }

func recordFile(id compute.ImageID) string { return id.String() + recordSuffix }

func dataFile(img compute.Image) string { return img.ID.String() + "." + img.SHA256 }

func (f files) lock(ctx context.Context) (unlock func(), err error) {
	unlock, err = f.Lock(ctx)
	if err != nil {
		return nil, compute.Errorf(compute.Unavailable, "lock the images: %w", err)
	}
	return unlock, nil
}

func (f files) read(id compute.ImageID) (compute.Image, error) {
	var img compute.Image
	data, err := os.ReadFile(f.File(recordFile(id)))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return img, image.Missing(id)
	case err != nil:
		return img, compute.Errorf(compute.Unavailable, "read the record of image %s: %w", id, err)
	}
	if err := json.Unmarshal(data, &img); err != nil || img.ID != id {
		return compute.Image{}, compute.Errorf(compute.Corrupt, "the record of image %s is damaged", id)
	}
	return img, nil
}

// written says when a record was written last.
func (f files) written(id compute.ImageID) (time.Time, error) {
	info, err := os.Stat(f.File(recordFile(id)))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return time.Time{}, image.Missing(id)
	case err != nil:
		return time.Time{}, compute.Errorf(compute.Unavailable, "look at the record of image %s: %w", id, err)
	}
	return info.ModTime(), nil
}

func (f files) write(img compute.Image) error {
	data, err := json.MarshalIndent(img, "", "  ")
	if err == nil {
		err = f.Write(recordFile(img.ID), data)
	}
	if err != nil {
		return compute.Errorf(compute.Unavailable, "store the record of image %s: %w", img.ID, err)
	}
	return nil
}

// remove takes the record first: without it the data is nobody's.
func (f files) remove(img compute.Image) error {
	err := f.Remove(recordFile(img.ID))
	if err == nil && img.SHA256 != "" {
		err = f.Remove(dataFile(img))
	}
	if err != nil {
		return compute.Errorf(compute.Unavailable, "delete image %s: %w", img.ID, err)
	}
	return nil
}

// ids gives the ids of all records, in order.
func (f files) ids() ([]compute.ImageID, error) {
	entries, err := os.ReadDir(f.Path)
	if err != nil {
		return nil, compute.Errorf(compute.Unavailable, "list the images: %w", err)
	}
	var out []compute.ImageID
	for _, e := range entries {
		name, isRecord := strings.CutSuffix(e.Name(), recordSuffix)
		if id, err := uuid.Parse(name); isRecord && err == nil {
			out = append(out, compute.ImageID{UUID: id})
		}
	}
	return out, nil
}

// clearOrphans removes data that no record names. The caller holds the lock.
// Data beside a damaged record stays, for whoever mends the record.
func (f files) clearOrphans() error {
	entries, err := os.ReadDir(f.Path)
	if err != nil {
		return compute.Errorf(compute.Unavailable, "list the images: %w", err)
	}
	var orphans []string
	for _, e := range entries {
		name, rest, _ := strings.Cut(e.Name(), ".")
		id, err := uuid.Parse(name)
		if err != nil || "."+rest == recordSuffix {
			continue
		}
		img, err := f.read(compute.ImageID{UUID: id})
		if compute.Is(err, compute.NotFound) || err == nil && dataFile(img) != e.Name() {
			orphans = append(orphans, e.Name())
		}
	}
	if err := f.Remove(orphans...); err != nil {
		return compute.Errorf(compute.Unavailable, "clear data without an image: %w", err)
	}
	return nil
}
