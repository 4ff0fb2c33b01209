package disk

import (
	"context"

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
