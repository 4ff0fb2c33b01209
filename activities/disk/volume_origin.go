package disk

import (
	"context"

	"strongroom/compute"
)

// origin keeps the disk open, and its lock, until what it gives is wiped. Of what the
// guest never wrote it gives noise.
func (p volumePlace) origin(ctx context.Context, in ExportInput) (o origin, err error) {
	d := in.Disk
	v, unlock, err := p.lockVolume(ctx, in.Server, d)
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
		if err := p.closeMapping(aside, v); err != nil {
			p.Logger.WarnContext(ctx, "a volume is still open", "volume", v, "error", err)
		}
	}
	m, err := p.mappingOf(ctx, v)
	if err != nil {
		return o, volumeFailure(ctx, d, err)
	}
	if m.InUse {
		return o, compute.Errorf(compute.Conflict, "disk %s is in use by a server that runs", d.ID)
	}
	if o.key, err = p.Keys.Passphrase(ctx, in.Credential, *d.Secret); err != nil {
		return o, err
	}
	opened = true
	if err := p.openMapping(ctx, v, d, o.key); err != nil {
		return o, volumeFailure(ctx, d, err)
	}
	o.path, o.own = v.opened(), deviceNode(v.opened())
	if o.info, err = p.idle(ctx, o.path, "raw"); err != nil {
		return o, exportFailure(ctx, d, err)
	}
	o.stored = o.bytes()
	return o, nil
}
