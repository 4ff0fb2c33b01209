package disk

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"github.com/google/uuid"

	"strongroom/compute"
)

// Remove is the activity disk.Remove. Invalid: the thing's name is none of its kind's.
//
// Of a disk_file it ensures that the server's folder has no such file, nor the host a
// volume or an image in its pool of that name, whole or half made, and that there is no
// empty folder. The console log and the config drive of a server that was booted here by an
// operation that began when the removal waited already are left alone. What an operation exported is a folder in the server's; a job of the
// hypervisor that still writes into it is ended first. Clusters are not
// overwritten: without the key they are noise, and that goes right after.
//
// Of a cached_image it ensures that the host keeps no copy of an encrypted image for
// that use. The copy goes with its last use.
//
// Of a key_slot it ensures that the slots open the disk no more. Slots go by their
// numbers, no secret is needed. A disk that is not there has none. Corrupt, having done
// nothing: the header is damaged, or no other slot would open the disk.
func (a *Activities) Remove(ctx context.Context, in compute.Removal) error {
	switch in.Thing.Kind {
	case compute.ThingDiskFile:
		return a.removeFile(ctx, in.Thing)
	case compute.ThingCachedImage:
		return a.releaseImage(ctx, in.Thing.Name)
	case compute.ThingKeySlot:
		return a.eraseSlots(ctx, in.Thing)
	}
	return in.Misdirected()
}

var fileName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*$`)

// filePath is the path of a file in a server's folder.
func (a *Activities) filePath(server compute.ServerID, file string) (string, error) {
	if !fileName.MatchString(file) {
		return "", compute.Errorf(compute.Invalid, "server %s: %q is no file name", server, file)
	}
	dir, err := a.serverDir(server)
	return filepath.Join(dir, file), err
}

func (a *Activities) removeFile(ctx context.Context, t compute.Thing) error {
	name := t.Name
	folder, file, _ := strings.Cut(name, "/")
	id, err := uuid.Parse(folder)
	if err != nil {
		return compute.Errorf(compute.Invalid, "%q is no file of a server", name)
	}
	server := compute.ServerID{UUID: id}
	path, err := a.filePath(server, file)
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	if a.Copies != nil && compute.IsExportFolder(file) {
		// Before the lock: who copies has the server's lock when he takes this one.
		if err := a.Copies.EndCopy(ctx, server, path); err != nil {
			return err
		}
	}
	unlock, err := lockFile(ctx, path, a.VolumeGroup != "")
	if errors.Is(err, fs.ErrNotExist) {
		return nil // nor is there a folder
	}
	if err != nil {
		return failed(ctx, err, "server %s: lock of %s", server, file)
	}
	if (file == ConsoleLog || file == compute.ConfigDriveFile) && t.WaitedBefore(bootedAt(dir)) {
		unlock()
		a.Logger.InfoContext(ctx, "left a file of a server that was booted since its removal waits", "server", server, "file", file, "since", t.Since)
		return nil
	}
	places, err := a.everyPlace(server, path)
	for _, at := range places {
		if err == nil {
			err = at.remove(ctx)
		}
	}
	switch file {
	case compute.ConfigDriveFile:
		err = errors.Join(err, os.RemoveAll(a.scratch(server)))
	case ConsoleLog:
		err = errors.Join(err, removeRotated(dir), os.RemoveAll(bootMark(dir)))
	}
	unlock()
	if err != nil {
		return failed(ctx, err, "server %s: file %s", server, file)
	}
	switch err := os.Remove(dir); {
	case err == nil:
		if err := syncDir(a.InstancesDir); err != nil {
			return failed(ctx, err, "server %s: its folder", server)
		}
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTEMPTY), errors.Is(err, syscall.EEXIST):
	default:
		return failed(ctx, err, "server %s: its folder", server)
	}
	return nil
}

// removeRotated removes the older parts of a server's console log.
func removeRotated(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if rotated.MatchString(e.Name()) {
			err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	return err
}
