package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/google/uuid"

	"strongroom/activities/volume"
)

// hostID reads the host's uuid from its file, and makes one at the first start.
func hostID(path string) (id uuid.UUID, isNew bool, err error) {
	text, err := os.ReadFile(path)
	if err == nil {
		if id, err = uuid.ParseBytes([]byte(strings.TrimSpace(string(text)))); err != nil {
			err = fmt.Errorf("%s does not hold a uuid", path)
		}
		return id, false, err
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return uuid.Nil, false, err
	}
	id = uuid.New()
	if err := os.MkdirAll(filepath.Dir(path), 0o711); err != nil {
		return uuid.Nil, false, err
	}
	return id, true, os.WriteFile(path, []byte(id.String()+"\n"), 0o644)
}

// claimFolders sees that the host's folders are its own.
func (h HostConfig) claimFolders(host uuid.UUID, isNew bool) error {
	if err := claimFolder(h.Instances, host, isNew, h.ShareInstances); err != nil {
		return err
	}
	return claimFolder(h.ImageCache, host, isNew, false)
}

// claimFolder sees that a folder is the host's. An empty one in the place of a file
// system that is not mounted would look as if all in it were gone: deletes would find
// nothing to remove and call it done. So a host that is not new takes no empty folder
// that does not bear its mark. The mark of a folder that hosts share has a line for each of them: who is
// to share it with others (host.share_instances) adds its own.
func claimFolder(dir string, host uuid.UUID, isNew, shares bool) error {
	mark := filepath.Join(dir, volume.Mark)
	text, err := os.ReadFile(mark)
	if err == nil {
		owners := strings.Fields(string(text))
		switch {
		case slices.Contains(owners, host.String()) && (len(owners) == 1 || shares):
			return nil
		case slices.Contains(owners, host.String()):
			return fmt.Errorf("%s is shared by the hosts %s, and this one is set up for a folder of its own: set host.share_instances on each of them", dir, strings.Join(owners, ", "))
		case shares:
			return joinFolder(mark, host)
		}
		return fmt.Errorf("%s is the folder of host %s, and this is host %s: is it the right one, and is host.id_file? "+
			"If hosts are to share it, set host.share_instances on each of them", dir, strings.Join(owners, ", "), host)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return strings.HasPrefix(e.Name(), ".strongroom-") }) // no server's
	if len(entries) == 0 && !isNew {
		return fmt.Errorf("%s is empty and not marked as a folder of host %s: is its file system mounted? "+
			"If it is the right one: install -d -m 711 %[1]s && echo %[2]s > %s", dir, host, mark)
	}
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return err
	}
	return os.WriteFile(mark, []byte(host.String()+"\n"), 0o644)
}

// joinFolder adds a host to the mark of a folder that hosts share.
func joinFolder(mark string, host uuid.UUID) error {
	f, err := os.OpenFile(mark, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err == nil { // until it is closed
		_, err = f.WriteString(host.String() + "\n")
	}
	return errors.Join(err, f.Sync(), f.Close())
}
