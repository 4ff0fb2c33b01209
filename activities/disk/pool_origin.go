package disk

import (
	"context"
	"errors"
	"regexp"
	"strconv"
	"strings"

	"strongroom/compute"
)

// origin keeps the disk's lock until what it gives is wiped.
func (p poolPlace) origin(ctx context.Context, in ExportInput) (o origin, err error) {
	d := in.Disk
	if !p.linked {
		return o, compute.Errorf(compute.Corrupt, "disk %s is missing", d.ID)
	}
	if o.close, err = lockFile(ctx, p.link, false); err != nil {
		return o, failed(ctx, err, "disk %s: lock", d.ID)
	}
	if o.cluster, err = p.ClusterKey(); err != nil {
		return o, err
	}
	_, found, err := p.findImage(ctx, p.poolImage)
	if err == nil && !found {
		err = compute.Errorf(compute.Corrupt, "it is missing")
	}
	if err != nil {
		return o, exportFailure(ctx, d, err)
	}
	if used, err := p.imageInUse(ctx, p.poolImage); err != nil {
		return o, exportFailure(ctx, d, err)
	} else if used {
		return o, compute.Errorf(compute.Conflict, "disk %s is in use by a server that runs, or was until half a minute ago", d.ID)
	}
	if err = o.lend(ctx, p.Keys, in); err != nil {
		return o, err
	}
	if o.info, err = p.imageInfo(ctx, p.poolImage, d.Encrypted, o.cluster); err == nil {
		o.own, err = p.imageNode(p.poolImage, o.keyID)
	}
	if err != nil {
		return o, exportFailure(ctx, d, err)
	}
	o.stored = o.bytes()
	return o, nil
}

// keepsParentKey is the last version of Ceph that cannot make a cloned image with
// another key than its parent's.
const keepsParentKey = 17

// allows refuses what cannot be had with the rbd back end on Ceph 17 and before:
// images with a new key (EE-21); and copies that a disk is to be made of again.
func (p poolPlace) allows(ctx context.Context, d compute.Disk, t compute.ExportTarget) error {
	if t.Restorable {
		return compute.Errorf(compute.Conflict, "disk %s is in a Ceph pool: servers whose disks are there cannot be shelved", d.ID)
	}
	if t.Key != compute.KeyNew || !p.linked {
		return nil
	}
	version, err := p.clusterVersion(ctx)
	if err != nil {
		return failed(ctx, err, "disk %s: the version of Ceph", d.ID)
	}
	if version > keepsParentKey {
		return nil
	}
	return compute.Errorf(compute.Conflict, "encryption.key 'new' is not supported in this deployment: disks are in the rbd back end, "+
		"on Ceph %d, which cannot give an image another key than its disk's; ask for 'same', 'existing' or 'none', or use Ceph %d or newer",
		version, keepsParentKey+1)
}

var versionText = regexp.MustCompile(`^ceph version (\d+)\.`)

// clusterVersion is the oldest version that one of the cluster's monitors has.
func (a *Activities) clusterVersion(ctx context.Context) (oldest int, err error) {
	var versions struct {
		Monitors map[string]int `json:"mon"`
	}
	if err := a.cephDoc(ctx, &versions, "ceph", "versions"); err != nil {
		return 0, err
	}
	for text := range versions.Monitors {
		m := versionText.FindStringSubmatch(text)
		if m == nil {
			return 0, compute.Errorf(compute.Unavailable, "a monitor gives no number of a version: %w", errors.New(strings.TrimSpace(text)))
		}
		if n, err := strconv.Atoi(m[1]); err == nil && (oldest == 0 || n < oldest) {
			oldest = n
		}
	}
	if oldest == 0 {
		return 0, compute.Errorf(compute.Unavailable, "no monitor says one")
	}
	return oldest, nil
}
