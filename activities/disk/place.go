package disk

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"strongroom/activities/disk/luks"
	"strongroom/compute"
)

// place is where a disk of a server is, or is to be, and how it is kept there. The
// activities are the same for all places; what differs is here.
type place interface {
	// create is what Create does, under the disk's lock.
	create(ctx context.Context, in CreateInput, want newDisk) (options map[string]string, err error)
	// whole reports whether disks there have all of their image's data in themselves.
	whole() bool
	// origin looks at the disk, to copy it. What it gives must be wiped also when it
	// fails.
	origin(ctx context.Context, in ExportInput) (origin, error)
	// allows refuses a copy that cannot be made of a disk there.
	allows(ctx context.Context, d compute.Disk, t compute.ExportTarget) error
	// onHeader does something to the disk's LUKS header, under its lock. Conflict:
	// headers are not changed there.
	onHeader(do func(luks.Header) error) error
	// remove ensures that there is nothing of the disk, whole or half made.
	remove(ctx context.Context) error
}

// diskPath is the name of a disk in its server's folder. A disk that is no file has a
// link there.
func (a *Activities) diskPath(server compute.ServerID, d compute.Disk) (string, error) {
	return a.filePath(server, d.Name())
}

// place finds the place of a disk, or chooses one for a disk that is nowhere yet.
func (a *Activities) place(server compute.ServerID, d compute.Disk) (place, error) {
	path, err := a.diskPath(server, d)
	if err != nil {
		return nil, err
	}
	if d.OnDevice() {
		return volumePlace{a, a.volume(server, d.Name()), path}, nil
	}
	i, linked, err := a.pooled(path)
	if err != nil {
		return nil, err
	}
	if linked {
		return poolPlace{a, i, path, true}, nil
	}
	if _, err := os.Lstat(path); a.Pool.Name != "" && errors.Is(err, fs.ErrNotExist) {
		return poolPlace{a, a.imageFor(server, d.Name()), path, false}, nil
	}
	return filePlace{a, path}, nil
}

// placeOf finds the place of a disk that is there, by its path in its server's folder.
func (a *Activities) placeOf(server compute.ServerID, path string) (place, error) {
	i, linked, err := a.pooled(path)
	if err != nil {
		return nil, err
	}
	if linked {
		return poolPlace{a, i, path, true}, nil
	}
	if v := a.volume(server, filepath.Base(path)); a.VolumeGroup != "" && v.linkedAt(path) {
		return volumePlace{a, v, path}, nil
	}
	return filePlace{a, path}, nil
}

// everyPlace gives all places at which something of the name of a file in a server's
// folder may be; the folder is the last.
func (a *Activities) everyPlace(server compute.ServerID, path string) (all []place, err error) {
	name := filepath.Base(path)
	if a.VolumeGroup != "" && strings.HasPrefix(name, "disk") { // no console log, no export
		all = append(all, volumePlace{a, a.volume(server, name), path})
	}
	i, linked, err := a.pooled(path)
	if err != nil {
		return nil, err
	}
	if linked {
		all = append(all, poolPlace{a, i, path, true})
	}
	return append(all, filePlace{a, path}), nil
}
