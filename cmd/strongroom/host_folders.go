package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

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
	for _, dir := range []string{h.Instances, h.ImageCache} {
		if err := claimFolder(dir, host, isNew); err != nil {
			return err
		}
	}
	return nil
}

// claimFolder sees that a folder is the host's. An empty one in the place of a file
// system that is not mounted would look as if all in it were gone: deletes would find
// nothing to remove and call it done. So a host that is not new takes no empty folder
// that does not bear its mark.
func claimFolder(dir string, host uuid.UUID, isNew bool) error {
	mark := filepath.Join(dir, volume.Mark)
	text, err := os.ReadFile(mark)
	if err == nil {
		if owner := strings.TrimSpace(string(text)); owner != host.String() {
			return fmt.Errorf("%s is the folder of host %s, and this is host %s: is it the right one, and is host.id_file?", dir, owner, host)
		}
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(entries) == 0 && !isNew {
		return fmt.Errorf("%s is empty and not marked as a folder of host %s: is its file system mounted? "+
			"If it is the right one: install -d -m 711 %[1]s && echo %[2]s > %s", dir, host, mark)
	}
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return err
	}
	return os.WriteFile(mark, []byte(host.String()+"\n"), 0o644)
}
