package mount

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

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
	// WithFolder gives the servers whose guests run, or are paused, and have a folder of the host.
	WithFolder(ctx context.Context, path string) ([]compute.ServerID, error)
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
	others, err := a.others(ctx, in.Share, in.Server, uses)
	if err != nil {
		return err
	}
	return a.where(ctx, func(p place) error {
		return a.ensure(ctx, p, in.Share, a.protocol(in.Protocol, p), from, others)
	})
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
	others, err := a.others(ctx, id, server, uses)
	if err != nil {
		return err
	}
	if others > 0 {
		return a.forget(id, server)
	}
	if err := a.where(ctx, func(p place) error { return a.endAt(ctx, p, id) }); err != nil {
		return err
	}
	return a.forget(id, server)
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
		mounted, err := a.Mounted(ctx, id)
		if err != nil {
			return compute.SeenResult{}, err
		}
		if mounted {
			see(id, compute.ServerID{})
		}
	}
	return in.PageOf(all), nil
}

// Mounted reports whether a share is mounted where libvirt sees it. It does not ask its storage.
func (a *Activities) Mounted(ctx context.Context, id compute.ShareID) (mounted bool, err error) {
	err = a.where(ctx, func(p place) (err error) { mounted, err = p.isMounted(a.Path(id)); return err })
	if err != nil {
		return false, failed(id, "look at its mount point", err)
	}
	return mounted, nil
}

// lock is of one share's mount: the storage of another may not answer.
func (a *Activities) lock(ctx context.Context, id compute.ShareID) (unlock func(), err error) {
	if unlock, err = a.folder.LockPart(ctx, id.String()); err != nil {
		return nil, compute.Errorf(compute.Unavailable, "share %s: lock its mount: %w", id, folder.WithoutPath(err))
	}
	return unlock, nil
}
