package mount

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"strongroom/activities/folder"
	"strongroom/compute"
	"strongroom/durable"
)

// Locations tells where shares are exported.
type Locations interface {
	// Location gives the place of an export, for the operation whose activity asks.
	Location(ctx context.Context, cred compute.Credential, id compute.ShareID) (path string, err error)
}

// Guests knows which guests run.
type Guests interface {
	// IsOff fails with Conflict while a server's guest runs, or is paused.
	IsOff(ctx context.Context, id compute.ServerID) error
}

// Config of a host's mounts.
type Config struct {
	Dir       string // the mount points, and who uses them
	Locations Locations
	Guests    Guests
	// Daemon gives the process that serves libvirt here: mounts are made where it sees them.
	// nil: where this process does.
	Daemon func(ctx context.Context) (pid int, err error)
	Logger *slog.Logger
}

// Activities are what workflows call of a host's mounts. Those of no folder mount nothing.
type Activities struct {
	Config
	folder folder.Folder
}

// New makes the folder, mode 0700.
func New(cfg Config) (*Activities, error) {
	if !filepath.IsAbs(cfg.Dir) {
		return nil, fmt.Errorf("mount: folder %q is not an absolute path", cfg.Dir)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	f, err := folder.Open(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("mount: %w", err)
	}
	return &Activities{Config: cfg, folder: f}, nil
}

// Register registers the activities.
func (a *Activities) Register(r durable.Registry) {
	Mount.Register(r, durable.NoResult(a.Mount))
	Remove.Register(r, durable.NoResult(a.Remove))
	Seen.Register(r, a.Seen)
}

// Path is where a share is mounted.
func (a *Activities) Path(id compute.ShareID) string {
	return filepath.Join(a.Dir, id.String(), pointName)
}

func noFolder() error {
	return compute.Errorf(compute.Unavailable, "this host mounts no shares: host.shares is empty")
}

const (
	pointName = "mnt"
	useSuffix = ".use"
)

// use is a server's use of a mount: who made it, and when that began.
type use struct {
	Operation compute.OperationID `json:"operation"`
	Began     time.Time           `json:"began"`
}

// Mount is the activity mount.Mount: the share is mounted, and the server uses the mount. One
// that is there for another server is used, and noted (SH-33). Conflict: the protocol cannot
// be mounted here, the share has moved while another server uses it where it was, or the mount
// failed.
func (a *Activities) Mount(ctx context.Context, in Input) error {
	if in.Share.UUID == uuid.Nil || in.Server.UUID == uuid.Nil {
		return compute.Errorf(compute.Invalid, "a mount of no share, or for no server")
	}
	if a.Dir == "" {
		return noFolder()
	}
	if in.Protocol != compute.LocalShare {
		return compute.Errorf(compute.Conflict, "Share protocol %s is not supported.", in.Protocol)
	}
	location, err := a.Locations.Location(ctx, in.Credential, in.Share)
	if err != nil {
		return err
	}
	unlock, err := a.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	uses, err := a.uses(in.Share)
	if err != nil {
		return err
	}
	if err := a.noteUse(in); err != nil {
		return err
	}
	delete(uses, in.Server)
	return a.where(ctx, func() error { return a.bind(ctx, in.Share, location, len(uses)) })
}

// bind ensures that a folder of this machine is at the share's mount point.
func (a *Activities) bind(ctx context.Context, id compute.ShareID, from string, others int) error {
	point := a.Path(id)
	mounted, err := isMounted(point)
	if err != nil {
		return failed(id, "look at its mount point", err)
	}
	if mounted {
		same, err := isSame(point, from)
		switch {
		case err != nil:
			return refused(id, "it could not be mounted", err)
		case same && others > 0:
			a.Logger.WarnContext(ctx, "a share was mounted already, for another server", "share", id, "servers", others)
			return nil
		case same:
			return nil
		case others > 0:
			return compute.Errorf(compute.Conflict, "share %s has moved, and %d other servers of the host use it where it was", id, others)
		}
		if err := unmount(point); err != nil {
			return refused(id, "its mount could not be ended", err)
		}
	}
	if err := os.MkdirAll(point, 0o700); err != nil {
		return failed(id, "make its mount point", err)
	}
	if err := bindMount(from, point); err != nil {
		return refused(id, "it could not be mounted", err)
	}
	return nil
}

// Remove is the activity mount.Remove: the server uses the mount no more, and the last use has
// taken it along. A use of an operation that began after the removal was asked for is left
// alone. Conflict: the server's guest runs, so that the mount is in use, or it could not be
// ended.
func (a *Activities) Remove(ctx context.Context, in compute.Removal) error {
	if in.Thing.Kind != compute.ThingShareMount {
		return in.Misdirected()
	}
	id, server, err := compute.ParseShareUse(in.Thing.Name)
	if err != nil {
		return err
	}
	if a.Dir == "" {
		return noFolder()
	}
	unlock, err := a.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	uses, err := a.uses(id)
	if err != nil {
		return err
	}
	if in.Precedes(uses[server].Began) {
		a.Logger.InfoContext(ctx, "left a mount that was made since its removal waits", "share", id, "server", server)
		return nil
	}
	if err := a.Guests.IsOff(ctx, server); err != nil {
		return err
	}
	delete(uses, server)
	if len(uses) > 0 {
		return a.forget(id, server)
	}
	if err := a.where(ctx, func() error { return a.release(id) }); err != nil {
		return err
	}
	return a.forget(id, server)
}

// release ensures that nothing is at the share's mount point.
func (a *Activities) release(id compute.ShareID) error {
	point := a.Path(id)
	for {
		mounted, err := isMounted(point)
		if err != nil {
			return failed(id, "look at its mount point", err)
		}
		if !mounted {
			return nil
		}
		if err := unmount(point); err != nil {
			return refused(id, "its mount could not be ended", err)
		}
	}
}

// Seen is the activity mount.Seen: which server uses the mount of which share. A mount that
// nobody uses is seen as one of the server of no number.
func (a *Activities) Seen(ctx context.Context, in compute.SeenInput) (compute.SeenResult, error) {
	if a.Dir == "" {
		return in.PageOf(nil), nil
	}
	entries, err := os.ReadDir(a.Dir)
	if err != nil {
		return compute.SeenResult{}, compute.Errorf(compute.Unavailable, "folder of the mounts: %w", err)
	}
	var all []compute.Seen
	see := func(id compute.ShareID, server compute.ServerID) {
		all = append(all, compute.Seen{Kind: compute.ThingShareMount, Name: compute.ShareUse(id, server)})
	}
	for _, e := range entries {
		parsed, err := uuid.Parse(e.Name())
		if err != nil || !e.IsDir() {
			continue
		}
		id := compute.ShareID{UUID: parsed}
		uses, err := a.uses(id)
		if err != nil {
			return compute.SeenResult{}, err
		}
		for server := range uses {
			see(id, server)
		}
		if len(uses) > 0 {
			continue
		}
		mounted := false
		if err := a.where(ctx, func() (err error) { mounted, err = isMounted(a.Path(id)); return err }); err != nil {
			return compute.SeenResult{}, failed(id, "look at its mount point", err)
		}
		if mounted {
			see(id, compute.ServerID{})
		}
	}
	return in.PageOf(all), nil
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
	for _, path := range []string{a.Path(id), f.Path} { // os.Remove takes no folder that has something in it
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return failed(id, "remove its mount point", err)
		}
	}
	return nil
}

func (a *Activities) lock(ctx context.Context) (unlock func(), err error) {
	if unlock, err = a.folder.Lock(ctx); err != nil {
		return nil, compute.Errorf(compute.Unavailable, "mounts: lock: %w", err)
	}
	return unlock, nil
}

// refused is failed for what the next try will hardly mend: whoever waits is told at once.
func refused(id compute.ShareID, what string, err error) error {
	return compute.Errorf(compute.Conflict, "share %s: %s: %w", id, what, withoutPath(err))
}

// failed gives the error of a file system without the path, which tells where on the host
// the share is, or where it is exported (SH-25).
func failed(id compute.ShareID, what string, err error) error {
	if compute.KindOf(err) != "" {
		return err
	}
	return compute.Errorf(compute.Unavailable, "share %s: %s: %w", id, what, withoutPath(err))
}

func withoutPath(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
