package disk

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/google/uuid"

	"strongroom/compute"
)

// hidden names the file that stands beside another while it is made: ".new" is
// the file itself, ".lock" its lock.
func hidden(path, suffix string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+suffix)
}

// rotated matches the older parts of a console log: virtlogd, which libvirt keeps the
// logs with where it is told nothing else, begins a new file when one is full.
var rotated = regexp.MustCompile(`^` + regexp.QuoteMeta(ConsoleLog) + `\.[0-9]+$`)

// finished is the name of the file that one in a server's folder belongs to.
func finished(name string) string {
	if rotated.MatchString(name) {
		return ConsoleLog
	}
	inner, ok := strings.CutPrefix(name, ".")
	if !ok {
		return name
	}
	return strings.TrimSuffix(strings.TrimSuffix(inner, ".new"), ".lock")
}

var fileName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*$`)

// Delete is the activity disk.Delete: it ensures that the server's folder has
// no such file, nor the host a volume or an image in its pool of that name, whole or
// half made, and that there is no empty folder. The clusters are not overwritten:
// without the key they are noise, and that goes right after. Invalid: not the name of
// a file in a server's folder.
func (a *Activities) Delete(ctx context.Context, in DeleteInput) error {
	dir, err := a.serverDir(in.Server)
	if err != nil {
		return err
	}
	if !fileName.MatchString(in.File) {
		return compute.Errorf(compute.Invalid, "server %s: %q is no file name", in.Server, in.File)
	}
	path := filepath.Join(dir, in.File)
	unlock, err := lockFile(ctx, path, a.VolumeGroup != "")
	if errors.Is(err, fs.ErrNotExist) {
		return nil // nor is there a folder
	}
	if err != nil {
		return failed(ctx, err, "server %s: lock of %s", in.Server, in.File)
	}
	places, err := a.everyPlace(in.Server, path)
	for _, at := range places {
		if err == nil {
			err = at.remove(ctx)
		}
	}
	switch in.File {
	case compute.ConfigDriveFile:
		err = errors.Join(err, os.RemoveAll(a.scratch(in.Server)))
	case ConsoleLog:
		err = errors.Join(err, removeRotated(dir))
	}
	unlock()
	if err != nil {
		return failed(ctx, err, "server %s: file %s", in.Server, in.File)
	}
	switch err := os.Remove(dir); {
	case err == nil:
		if err := syncDir(a.InstancesDir); err != nil {
			return failed(ctx, err, "server %s: its folder", in.Server)
		}
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTEMPTY), errors.Is(err, syscall.EEXIST):
	default:
		return failed(ctx, err, "server %s: its folder", in.Server)
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

// Inventory is the activity disk.Inventory. A half-made file counts under the
// name that it was to get: that is what Delete removes it by.
func (a *Activities) Inventory(ctx context.Context) (InventoryResult, error) {
	servers, err := os.ReadDir(a.InstancesDir)
	if err != nil {
		return InventoryResult{}, failed(ctx, err, "folder of the servers")
	}
	var files []string
	for _, s := range servers {
		if _, err := uuid.Parse(s.Name()); err != nil || !s.IsDir() {
			continue
		}
		entries, err := os.ReadDir(filepath.Join(a.InstancesDir, s.Name()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // deleted meanwhile
			return InventoryResult{}, failed(ctx, err, "folder of server %s", s.Name())
		}
		for _, e := range entries {
			files = append(files, s.Name()+"/"+finished(e.Name()))
		}
	}
	volumes, err := a.volumeFiles(ctx)
	if err != nil {
		return InventoryResult{}, failed(ctx, err, "volumes of the servers")
	}
	files = append(files, volumes...)
	slices.Sort(files)
	uses, err := a.uses()
	if err != nil {
		return InventoryResult{}, failed(ctx, err, "copies of encrypted images")
	}
	return InventoryResult{Files: slices.Compact(files), CachedImages: uses}, nil
}

// volumeFiles lists our volumes by the names that files would have.
func (a *Activities) volumeFiles(ctx context.Context) (files []string, err error) {
	if a.VolumeGroup == "" {
		return nil, nil
	}
	all, err := a.volumes(ctx)
	for _, v := range all {
		server, file, _ := strings.Cut(v.Name, "_")
		files = append(files, server+"/"+finishedVolume(file))
	}
	return files, err
}
