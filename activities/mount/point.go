package mount

import (
	"context"
	"os"
	"path/filepath"

	"strongroom/compute"
)

const pointName = "mnt"

// Path is where a share is mounted.
func (a *Activities) Path(id compute.ShareID) string {
	return filepath.Join(a.Dir, id.String(), pointName)
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
	abandoned              // dead, but the kernel still waits for whoever served it
)

// protocol gives how a host mounts shares of a protocol; nil: it does not (SH-18).
func (a *Activities) protocol(name string, p place) protocol {
	switch name {
	case compute.LocalShare:
		return bind{}
	case compute.CephFSShare:
		return cephFS{a, p}
	case compute.NFSShare:
		return nfs{a, p}
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
		case is == dead || is == abandoned:
			// Nobody can use it. Others' guests get the new one when they are started again, and
			// may keep its process until then: the last use waits for that.
			a.Logger.WarnContext(ctx, "a share's mount was dead, and is made anew", "share", id, "servers", others)
			if err := detach(point, is == abandoned); err != nil {
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
