package disk

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/google/uuid"

	"strongroom/activities/folder"
	"strongroom/compute"
)

// Storage gives the id of the storage that servers' folders are on, and makes one where there is none: hosts that
// share the storage give the same.
func (a *Activities) Storage() (uuid.UUID, error) { return folder.Storage(a.InstancesDir) }

// PingInput names files of a server that a host must not have, since they are to come; none: it need only take work.
type PingInput struct {
	Server compute.ServerID `json:"server,omitzero"`
	Absent []string         `json:"absent,omitempty"`
}

// Ping is the activity disk.Ping. A host that takes it runs, however much other work it has. Conflict: it has
// files that are to come.
func (a *Activities) Ping(_ context.Context, in PingInput) error {
	return a.absent(in.Server, in.Absent)
}

// absent refuses, with Conflict, to make files of a server that are there: the host shares its folder with the one that has them, and did not say so.
func (a *Activities) absent(server compute.ServerID, files []string) error {
	for _, file := range files {
		path, err := a.filePath(server, file)
		if err != nil {
			return err
		}
		switch _, err := os.Lstat(path); {
		case err == nil:
			return compute.Errorf(compute.Conflict, "server %s: the host that it is to come to has %s of it already, which is not on record: does it share its folder of disks with "+
				"another host that does not say so (a worker of an earlier release)? Nothing was changed", server, file)
		case !errors.Is(err, fs.ErrNotExist):
			return compute.Errorf(compute.Unavailable, "server %s: %s: %w", server, file, folder.WithoutPath(err))
		}
	}
	return nil
}

// FindInput names the files of a server that another host, which is down, has on storage that this one shares: its disks, the root
// disk first, and the file with the variables of its UEFI.
type FindInput struct {
	Server compute.ServerID `json:"server"`
	Files  []string         `json:"files"`
}

// FindResult says what the root disk's header has as its backing file.
type FindResult struct {
	Backing string `json:"backing,omitempty"`
}

// Find is the activity disk.Find: it sees that a server's files are here, and changes nothing. Conflict: one is not there, or is none: it is on
// a volume or in a pool of another host.
func (a *Activities) Find(_ context.Context, in FindInput) (out FindResult, err error) {
	for i, name := range in.Files {
		path, err := a.filePath(in.Server, name)
		if err != nil {
			return out, err
		}
		info, err := os.Lstat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return out, compute.Errorf(compute.Conflict, "server %s: the host that it goes to shares the storage of disks with the one that it is on, as both say, and does not see %s there: "+
				"is the file system mounted?", in.Server, name)
		case err != nil:
			return out, compute.Errorf(compute.Unavailable, "server %s: %s: %w", in.Server, name, folder.WithoutPath(err))
		case !info.Mode().IsRegular():
			return out, compute.Errorf(compute.Conflict, "server %s: %s is no file on the storage that its host shares: its disks cannot be kept", in.Server, name)
		}
		if i == 0 {
			if out.Backing, err = backingFile(path); err != nil {
				return out, compute.Errorf(compute.Unavailable, "server %s: %s: %w", in.Server, name, folder.WithoutPath(err))
			}
		}
	}
	return out, nil
}

// TakeOverInput names the root disk of a server that comes to this host with the storage that it is on. Image is what it leans on; nil: nothing.
type TakeOverInput struct {
	Server  compute.ServerID `json:"server"`
	Project string           `json:"project,omitempty"`
	Disks   []compute.Disk   `json:"disks"`
	Image   *compute.Image   `json:"image,omitempty"`
	// Backing is what the root disk's header is to have as its backing file, as Find gave it: the undo. "": this host's copy of the image.
	Backing string `json:"backing,omitempty"`
}

// TakeOver is the activity disk.TakeOver: it ensures that a server's disks, which are here, are what its record says, that nobody has them
// open, and that the header of its root disk names this host's copy of its image: that is the one thing that changes, and only where the
// hosts' caches have other paths. No key is needed. Conflict: a disk is in use; Corrupt: it is not what it was made as; NotFound: the host's cache has lost the image.
func (a *Activities) TakeOver(ctx context.Context, in TakeOverInput) error {
	for _, d := range in.Disks {
		if err := a.takeOver(ctx, in, d); err != nil {
			return failed(ctx, err, "disk %s", d.ID)
		}
	}
	return nil
}

func (a *Activities) takeOver(ctx context.Context, in TakeOverInput, d compute.Disk) error {
	path, err := a.diskPath(in.Server, d)
	if err != nil {
		return err
	}
	unlock, err := tryLockFile(path)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return busy{compute.Errorf(compute.Unavailable, "something is at work on it")}
	}
	if err != nil {
		return err
	}
	defer unlock()
	if d.Role != compute.RootDisk || in.Image == nil {
		return a.isThatDisk(ctx, path, d, "")
	}
	if in.Backing != "" {
		return a.nameBacking(path, in)
	}
	backing, release, err := a.underReceived(ctx, ReceiveInput{Project: in.Project, Image: in.Image})
	if err != nil {
		return err
	}
	defer release()
	return a.isThatDisk(ctx, path, d, backing)
}

// nameBacking has the header of a root disk name another host's copy of its image.
func (a *Activities) nameBacking(path string, in TakeOverInput) error {
	here, err := a.CachedImage(in.Project, *in.Image)
	if err != nil {
		return err
	}
	if in.Backing != here && !a.sameImage(in.Backing, here) {
		return compute.Errorf(compute.Invalid, "%q is no copy of its image", in.Backing)
	}
	return setBackingFile(path, in.Backing)
}
