package disk

import (
	"context"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"strongroom/compute"
)

// originInPool is origin for a disk in a pool, which is under its lock until it is
// wiped.
func (a *Activities) originInPool(ctx context.Context, in ExportInput, path string, i poolImage) (o origin, err error) {
	d := in.Disk
	if d.Encrypted && (d.Secret == nil || d.Format != compute.FormatLUKS) {
		return o, compute.Errorf(compute.Invalid, "disk %s: this host cannot read the encryption format %q", d.ID, d.Format)
	}
	if o.close, err = lockFile(ctx, path, false); err != nil {
		return o, failed(ctx, err, "disk %s: lock", d.ID)
	}
	if o.cluster, err = a.ClusterKey(); err != nil {
		return o, err
	}
	_, found, err := a.findImage(ctx, i)
	if err == nil && !found {
		err = compute.Errorf(compute.Corrupt, "it is missing")
	}
	if err != nil {
		return o, exportFailure(ctx, d, err)
	}
	if used, err := a.imageInUse(ctx, i); err != nil {
		return o, exportFailure(ctx, d, err)
	} else if used {
		return o, compute.Errorf(compute.Conflict, "disk %s is in use by a server that runs, or was until half a minute ago", d.ID)
	}
	key := ""
	if d.Encrypted {
		key = originKey
		if o.key, err = a.Keys.Passphrase(ctx, in.Credential, *d.Secret); err != nil {
			return o, err
		}
	}
	if o.info, err = a.imageInfo(ctx, i, d.Encrypted, o.cluster); err == nil {
		o.image, err = a.imageNode(i, key)
	}
	if err != nil {
		return o, exportFailure(ctx, d, err)
	}
	o.bytes = o.info.VirtualSize
	o.stored = o.bytes
	return o, nil
}

// keepsParentKey is the last version of Ceph that cannot make a cloned image with
// another key than its parent's.
const keepsParentKey = 17

// AllowExport refuses a copy that cannot be made of a disk where it is. With the rbd
// back end on Ceph 17 and before there are no images with a new key (EE-21).
// Conflict: it is refused; Unavailable: the cluster does not answer.
func (a *Activities) AllowExport(ctx context.Context, p compute.ExportPlan) error {
	dir, err := a.serverDir(p.Server)
	if err != nil || p.Target.Key != compute.KeyNew {
		return err
	}
	_, linked, err := a.pooled(filepath.Join(dir, p.Disk.Name()))
	if err != nil || !linked {
		return err
	}
	version, err := a.clusterVersion(ctx)
	if err != nil {
		return failed(ctx, err, "disk %s: the version of Ceph", p.Disk.ID)
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
			return 0, compute.Errorf(compute.Unavailable, "a monitor says %q", strings.TrimSpace(text))
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
