package mount

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"strongroom/activities/folder"
	"strongroom/compute"
)

// cephFS mounts shares of CephFS with the kernel's client where there is one, and else with ceph-fuse, which
// goes on by itself when the worker ends, and ends with its mount. What that is told is in a folder in memory while it begins.
type cephFS struct {
	*Activities
	place
}

// cephPatience is how long a monitor that answers is looked for, in seconds.
const cephPatience = 20

const sourceName = "source" // beside the mount point: what is mounted there

// at implements protocol. The mounts' table does not say what a mount by FUSE is of.
func (c cephFS) at(ctx context.Context, id compute.ShareID, point string, from Export) (state, error) {
	noted, err := os.ReadFile(filepath.Join(c.Dir, id.String(), sourceName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return elsewhere, failed(id, "read what is mounted", err)
	}
	switch isDead, err := c.isDead(ctx, id, point); {
	case errors.Is(err, errSilent):
		if ended, lookErr := c.hasEnded(id, point); lookErr != nil || !ended {
			return elsewhere, errors.Join(err, lookErr)
		}
		return abandoned, nil
	case err != nil:
		return elsewhere, err
	case isDead:
		return dead, nil
	case string(noted) == from.digest():
		return here, c.finish(id, point)
	}
	return elsewhere, nil
}

// What a configuration file of Ceph takes as it stands.
var (
	plainLocation = regexp.MustCompile(`\A([A-Za-z0-9.,:\[\]-]+):(/[A-Za-z0-9._/+=@~-]*)\z`)
	plainUser     = regexp.MustCompile(`\A[A-Za-z0-9_-]+\z`)
)

// mount implements protocol.
func (c cephFS) mount(ctx context.Context, id compute.ShareID, point string, from Export) error {
	place := plainLocation.FindStringSubmatch(from.Path)
	if place == nil || !plainUser.MatchString(from.User) {
		return compute.Errorf(compute.Conflict, "share %s: where it is exported cannot be read", id)
	}
	if err := c.clear(ctx, c.place, id); err != nil {
		return err
	}
	if err := c.keep(c.place, id); err != nil {
		return err
	}
	f := folder.Folder{Path: filepath.Join(c.Dir, id.String())}
	if err := f.Write(sourceName, []byte(from.digest())); err != nil {
		return failed(id, "note what is mounted", err)
	}
	if kernelHas(ctx, cephType) {
		return c.byKernel(ctx, id, point, from)
	}
	return c.byFuse(ctx, id, point, from, place[1], place[2])
}
