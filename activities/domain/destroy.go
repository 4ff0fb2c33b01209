package domain

import (
	"context"
	"errors"
	"io/fs"
	"os"

	libvirt "github.com/digitalocean/go-libvirt"

	"strongroom/compute"
)

// Destroy is the activity domain.Destroy. A start that was cut off may go on
// inside libvirtd, so the domain is looked for until it is not there.
func (a *Activities) Destroy(ctx context.Context, in DestroyInput) error {
	unlock, err := a.lock(ctx, in.Server)
	if err != nil {
		return err
	}
	defer unlock()
	tpm := libvirt.DomainUndefineTpm
	if in.KeepTPM {
		tpm = libvirt.DomainUndefineKeepTpm // without it, undefining takes the state along
	}
	flags := tpm | libvirt.DomainUndefineNvram | libvirt.DomainUndefineManagedSave |
		libvirt.DomainUndefineSnapshotsMetadata | libvirt.DomainUndefineCheckpointsMetadata
	err = a.Client.Do(ctx, func(l *libvirt.Libvirt) error {
		for {
			dom, found, err := lookup(l, in.Server)
			if err != nil || !found {
				return err
			}
			if err := cut(l, in.Server); err != nil {
				return err
			}
			if err := l.DomainUndefineFlags(dom, flags); gone(err) != nil {
				return err
			}
		}
	})
	if err == nil {
		err = a.Devices.CloseDevices(ctx, in.Server)
	}
	if err == nil {
		if err = os.Remove(a.socket(in.Server)); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return compute.Errorf(kind(err), "server %s: removal of its machine: %w", in.Server, err)
	}
	return nil
}
