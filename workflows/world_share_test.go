package workflows_test

import (
	"cmp"
	"context"
	"slices"

	"strongroom/activities/domain"
	"strongroom/activities/mount"
	"strongroom/activities/record"
	"strongroom/activities/share"
	"strongroom/compute"
)

// registerShares registers the shared file systems service, and what hosts mount of it.
func (w *world) registerShares(r registry) {
	register(w, r, share.Look, func(_ context.Context, in share.LookInput) (share.Share, error) {
		return share.Share{ID: in.Share, Protocol: w.protocol(), Status: share.StatusAvailable}, nil
	})
	register(w, r, share.Allow, func(_ context.Context, in share.AllowInput) (share.AllowResult, error) {
		to := share.GranteeOf(w.protocol(), *w.row.server.Host, in.Share, shareAddress)
		if in.To != to || in.Level != share.ReadWrite {
			return share.AllowResult{}, compute.Errorf(compute.Invalid, "not to %v", in.To)
		}
		name := compute.ShareUse(in.Share, in.Server)
		w.made(compute.ThingShareAccess, compute.PlaceShares, name)
		w.access[name] = true
		return share.AllowResult{State: share.StateActive}, nil
	})
	register(w, r, share.Remove, func(_ context.Context, in compute.Removal) (none, error) {
		for key := range w.mounts {
			if key[len(key)-len(in.Thing.Name):] == in.Thing.Name {
				w.broken = append(w.broken, "the access to a share went before its mount")
			}
		}
		delete(w.access, in.Thing.Name)
		return none{}, w.mayRemove(in)
	})
	registerOnHost(w, r, mount.Mount, func(ctx context.Context, in mount.Input) (none, error) {
		name := compute.ShareUse(in.Share, in.Server)
		if !w.access[name] {
			return none{}, compute.Errorf(compute.Forbidden, "the host has no access")
		}
		w.made(compute.ThingShareMount, hostOf(ctx), name)
		w.mounts[hostOf(ctx)+" "+name] = true
		return none{}, nil
	})
	registerOnHost(w, r, domain.AttachShare, func(ctx context.Context, in domain.ShareInput) (none, error) {
		key := hostOf(ctx) + " " + compute.ShareUse(in.Share, in.Server)
		if w.domains[hostOf(ctx)+" "+compute.InstanceName(in.Server)] != compute.PowerRunning {
			return none{}, compute.Errorf(compute.Conflict, "it is off")
		}
		if !w.mounts[key] || in.Tag == "" {
			return none{}, compute.Errorf(compute.Invalid, "share %s is not mounted, or has no tag", in.Share)
		}
		w.plugged[key] = true
		return none{}, nil
	})
	registerOnHost(w, r, domain.DetachShare, func(ctx context.Context, in domain.ShareInput) (none, error) {
		if w.holdsOn {
			return none{}, compute.Errorf(compute.Conflict, "the guest does not give it back")
		}
		delete(w.plugged, hostOf(ctx)+" "+compute.ShareUse(in.Share, in.Server))
		return none{}, nil
	})
	registerOnHost(w, r, mount.Remove, func(ctx context.Context, in compute.Removal) (none, error) {
		server, _ := in.Thing.Server()
		if w.domains[hostOf(ctx)+" "+compute.InstanceName(server)] == compute.PowerRunning && w.plugged[hostOf(ctx)+" "+in.Thing.Name] {
			return none{}, compute.Errorf(compute.Conflict, "the guest runs")
		}
		if w.stuck && w.mounts[hostOf(ctx)+" "+in.Thing.Name] {
			return none{}, compute.Errorf(compute.Conflict, "it is busy")
		}
		delete(w.mounts, hostOf(ctx)+" "+in.Thing.Name)
		return none{}, nil
	})
}

// protocol is that of all shares.
func (w *world) protocol() share.Protocol { return cmp.Or(w.shareProtocol, share.Local) }

// shareAddress is the host's on the network of the shares.
const shareAddress = "192.0.2.1"

// mayRemove refuses a removal without a credential.
func (w *world) mayRemove(in compute.Removal) error {
	return compute.WithAny(in.Credentials, func(compute.Credential) error { return nil })
}

// changeShares does what record.Settle does.
func (w *world) changeShares(changes []record.ShareChange) {
	w.row.server.Shares = slices.Clone(w.row.server.Shares) // what an operation began with stays as it was
	for _, c := range changes {
		for i := range w.row.server.Shares {
			if m := &w.row.server.Shares[i]; m.Share == c.Share {
				m.Status = m.Status.After(c.Event)
			}
		}
		w.row.server.Shares = slices.DeleteFunc(w.row.server.Shares, func(m compute.ShareMapping) bool { return c.Gone && m.Share == c.Share })
	}
}
