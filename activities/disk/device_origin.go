package disk

import (
	"context"

	"strongroom/compute"
)

// originOnDevice is origin for a disk that is a block device: it is open, and under
// its lock, until it is wiped. Of what the guest never wrote it gives noise.
func (a *Activities) originOnDevice(ctx context.Context, in ExportInput) (o origin, err error) {
	d := in.Disk
	v, unlock, err := a.lockVolume(ctx, in.Server, d)
	if err != nil {
		return o, err
	}
	opened := false
	o.close = func() {
		defer unlock()
		if !opened {
			return
		}
		aside, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
		defer cancel()
		if err := a.closeMapping(aside, v); err != nil {
			a.Logger.WarnContext(ctx, "a volume is still open", "volume", v, "error", err)
		}
	}
	m, err := a.mappingOf(ctx, v)
	if err != nil {
		return o, volumeFailure(ctx, d, err)
	}
	if m.InUse {
		return o, compute.Errorf(compute.Conflict, "disk %s is in use by a server that runs", d.ID)
	}
	if o.key, err = a.Keys.Passphrase(ctx, in.Credential, *d.Secret); err != nil {
		return o, err
	}
	opened = true
	if err := a.openMapping(ctx, v, d.Format, o.key); err != nil {
		return o, volumeFailure(ctx, d, err)
	}
	o.path, o.device = v.opened(), true
	if o.info, err = a.idle(ctx, o.path, "raw"); err != nil {
		return o, exportFailure(ctx, d, err)
	}
	o.bytes = o.info.VirtualSize
	o.stored = o.bytes
	return o, nil
}
