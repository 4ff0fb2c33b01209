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

// Exports tells where shares are exported.
type Exports interface {
	// Export gives an export that a host can mount, for the operation whose activity asks.
	Export(ctx context.Context, cred compute.Credential, id compute.ShareID) (Export, error)
}

// Guests knows what guests have.
type Guests interface {
	// HasFolder reports whether a server's guest runs, or is paused, and has a folder of the host.
	HasFolder(ctx context.Context, id compute.ServerID, path string) (bool, error)
}

// Config of a host's mounts.
type Config struct {
	Dir     string // the mount points, and who uses them
	Exports Exports
	Guests  Guests
	Memory  string // a file system in memory, default /dev/shm
	// Daemon gives the process that serves libvirt here: mounts are made where it sees them.
	// nil: where this process does.
	Daemon func(ctx context.Context) (pid int, err error)
	Logger *slog.Logger
}

// Activities are what workflows call of a host's mounts. Those of no folder mount nothing.
type Activities struct {
	Config
	folder folder.Folder
	looks  looks
}

// New makes the folder, mode 0700.
func New(cfg Config) (*Activities, error) {
	if !filepath.IsAbs(cfg.Dir) {
		return nil, fmt.Errorf("mount: folder %q is not an absolute path", cfg.Dir)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Memory == "" {
		cfg.Memory = "/dev/shm"
	}
	f, err := folder.Open(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("mount: %w", err)
	}
	// The kernel's table of mounts names what links lead to.
	if cfg.Dir, err = filepath.EvalSymlinks(cfg.Dir); err != nil {
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
	if a.protocol(in.Protocol, place{}) == nil {
		return compute.Errorf(compute.Conflict, "Share protocol %s is not supported.", in.Protocol)
	}
	from, err := a.Exports.Export(ctx, in.Credential, in.Share)
	if err != nil {
		return err
	}
	defer from.Key.Wipe()
	unlock, err := a.lock(ctx, in.Share)
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
	return a.where(ctx, func(p place) error {
		return a.ensure(ctx, p, in.Share, a.protocol(in.Protocol, p), from, len(uses))
	})
}

// protocol is how shares of a protocol are mounted.
type protocol interface {
	// at says what is mounted at a share's mount point, compared to an export.
	at(ctx context.Context, id compute.ShareID, point string, from Export) (state, error)
	mount(ctx context.Context, id compute.ShareID, point string, from Export) error
}

// state is what a mount is.
type state int

const (
	here      state = iota // of the export
	elsewhere              // of another one
	dead                   // of a storage that has shut it out, or that nobody serves any more
)

// protocol gives how a host mounts shares of a protocol; nil: it does not (SH-18).
func (a *Activities) protocol(name string, p place) protocol {
	switch name {
	case compute.LocalShare:
		return bind{}
	case compute.CephFSShare:
		return cephFS{a, p}
	}
	return nil
}

// ensure ensures that an export is at the share's mount point.
func (a *Activities) ensure(ctx context.Context, p place, id compute.ShareID, how protocol, from Export, others int) error {
	point := a.Path(id)
	mounted, err := p.isMounted(point)
	if err != nil {
		return failed(id, "look at its mount point", err)
	}
	if mounted {
		is, err := how.at(ctx, id, point, from)
		switch {
		case err != nil:
			return err
		case is == here && others > 0:
			a.Logger.WarnContext(ctx, "a share was mounted already, for another server", "share", id, "servers", others)
			return nil
		case is == here:
			return nil
		case is == elsewhere && others > 0:
			return compute.Errorf(compute.Conflict, "share %s has moved, and %d other servers of the host use it where it was", id, others)
		case is == dead:
			// Nobody can use it. Others' guests get the new one when they are started again, and
			// may keep its process until then: the last use waits for that.
			a.Logger.WarnContext(ctx, "a share's mount was dead, and is made anew", "share", id, "servers", others)
			if err := detach(point); err != nil {
				return refused(id, "its mount could not be ended", err)
			}
		default:
			if err := a.endAt(ctx, p, id); err != nil {
				return err
			}
		}
	}
	if err := os.MkdirAll(point, 0o700); err != nil {
		return failed(id, "make its mount point", err)
	}
	return how.mount(ctx, id, point, from)
}

// Remove is the activity mount.Remove: the server uses the mount no more, and the last use has
// taken it along. A use of an operation that began after the removal was asked for is left
// alone. Conflict: the server's guest runs with the share, or the mount could not be ended.
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
	unlock, err := a.lock(ctx, id)
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
	switch has, err := a.Guests.HasFolder(ctx, server, a.Path(id)); {
	case err != nil:
		return err
	case has:
		return compute.Errorf(compute.Conflict, "the guest of server %s runs with share %s", server, id)
	}
	delete(uses, server)
	if len(uses) > 0 {
		return a.forget(id, server)
	}
	if err := a.where(ctx, func(p place) error { return a.endAt(ctx, p, id) }); err != nil {
		return err
	}
	return a.forget(id, server)
}

// endAt ensures that nothing is at the share's mount point, and that what was has written all.
func (a *Activities) endAt(ctx context.Context, p place, id compute.ShareID) error {
	if err := a.clear(ctx, p, id); err != nil {
		return err
	}
	return a.ended(ctx, p, id)
}

// clear ensures that nothing is at the share's mount point, nor comes there of an attempt that
// was cut off.
func (a *Activities) clear(ctx context.Context, p place, id compute.ShareID) error {
	point := a.Path(id)
	for {
		mounted, err := p.isMounted(point)
		if err != nil {
			return failed(id, "look at its mount point", err)
		}
		if mounted {
			if err := unmountIdle(ctx, point); err != nil {
				return refused(id, "its mount could not be ended", err)
			}
			continue
		}
		if found, err := a.endBegun(p, id); err != nil || !found {
			return err
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
		if err := a.where(ctx, func(p place) (err error) { mounted, err = p.isMounted(a.Path(id)); return err }); err != nil {
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
	for _, path := range []string{a.Path(id), f.File(sourceName), f.File(pidName), f.Path} { // os.Remove takes no folder that has something in it
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return failed(id, "remove its mount point", err)
		}
	}
	return nil
}

// lock is of one share's mount: the storage of another may not answer.
func (a *Activities) lock(ctx context.Context, id compute.ShareID) (unlock func(), err error) {
	if unlock, err = a.folder.LockPart(ctx, id.String()); err != nil {
		return nil, compute.Errorf(compute.Unavailable, "share %s: lock its mount: %w", id, folder.WithoutPath(err))
	}
	return unlock, nil
}

// refused is failed for what the next try will hardly mend: whoever waits is told at once.
func refused(id compute.ShareID, what string, err error) error {
	return compute.Errorf(compute.Conflict, "share %s: %s: %w", id, what, folder.WithoutPath(err))
}

// failed gives the error of a file system without the path, which tells where on the host
// the share is, or where it is exported (SH-25).
func failed(id compute.ShareID, what string, err error) error {
	if compute.KindOf(err) != "" {
		return err
	}
	return compute.Errorf(compute.Unavailable, "share %s: %s: %w", id, what, folder.WithoutPath(err))
}
