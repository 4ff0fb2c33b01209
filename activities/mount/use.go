package mount

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"strongroom/activities/folder"
	"strongroom/compute"
)

const useSuffix = ".use"

// use is a server's use of a mount: who made it, and when that began.
type use struct {
	Operation compute.OperationID `json:"operation"`
	Began     time.Time           `json:"began"`
}

// uses reads who uses a share's mount.
func (a *Activities) uses(id compute.ShareID) (map[compute.ServerID]use, error) {
	out := map[compute.ServerID]use{}
	files, err := filepath.Glob(filepath.Join(a.Dir, id.String(), "*"+useSuffix))
	if err != nil {
		return nil, failed(id, "list who uses it", err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		server, err := uuid.Parse(name[:len(name)-len(useSuffix)])
		if err != nil {
			continue
		}
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) { // removed since
			continue
		}
		if err != nil {
			return nil, failed(id, "read who uses it", err)
		}
		var u use
		if err := json.Unmarshal(text, &u); err != nil {
			return nil, compute.Errorf(compute.Corrupt, "share %s: who uses its mount cannot be read: %s", id, name)
		}
		out[compute.ServerID{UUID: server}] = u
	}
	return out, nil
}

// others counts the other servers that use a share's mount, of those who are said to use it. Where there is none, guests are
// asked, before anything is unmounted: a note may have been lost, with a disk's last writes or by somebody's hand.
// Then it is written anew, so that the mount goes when that guest's server gives it up.
func (a *Activities) others(ctx context.Context, id compute.ShareID, server compute.ServerID, uses map[compute.ServerID]use) (int, error) {
	delete(uses, server)
	if len(uses) > 0 {
		return len(uses), nil
	}
	running, err := a.Guests.WithFolder(ctx, a.Path(id))
	if err != nil {
		return 0, err
	}
	count := 0
	for _, other := range running {
		if other == server {
			continue
		}
		count++
		a.Logger.WarnContext(ctx, "a guest runs with a share that its server was not noted to use", "share", id, "server", other)
		if err := a.noteUse(Input{Share: id, Server: other}); err != nil {
			return 0, err
		}
	}
	return count, nil
}

// noteUse writes down that a server uses a share's mount. It outlives the host's power.
func (a *Activities) noteUse(in Input) error {
	f, err := folder.Open(filepath.Join(a.Dir, in.Share.String()))
	if err == nil {
		err = a.folder.Sync()
	}
	if err == nil {
		var text []byte
		if text, err = json.Marshal(use{in.Operation, in.Began}); err == nil {
			err = f.Write(in.Server.String()+useSuffix, text)
		}
	}
	if err != nil {
		return failed(in.Share, "note who uses it", err)
	}
	return nil
}

// forget removes the note of a use, and the share's folder where that was the last one.
func (a *Activities) forget(id compute.ShareID, server compute.ServerID) error {
	f := folder.Folder{Path: filepath.Join(a.Dir, id.String())}
	err := f.Remove(server.String() + useSuffix)
	if errors.Is(err, fs.ErrNotExist) { // the folder
		return nil
	}
	if err != nil {
		return failed(id, "forget who used it", err)
	}
	if uses, err := a.uses(id); err != nil || len(uses) > 0 {
		return err
	}
	for _, path := range []string{a.Path(id), f.File(sourceName), f.File(pidName), f.Path} { // os.Remove takes no folder that has something in it
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return failed(id, "remove its mount point", err)
		}
	}
	return nil
}
