package domain

import (
	"context"
	"slices"
	"strings"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"strongroom/compute"
)

// ShareInput names a share of a guest that runs.
type ShareInput struct {
	Server compute.ServerID `json:"server"`
	Share  compute.ShareID  `json:"share_id"`
	Tag    string           `json:"tag,omitempty"` // by which the guest mounts it
}

// portsForShares are the spare PCI ports of a guest that may be given shares while it runs.
const portsForShares = 4

// How long a guest may take to give a share back, and how often it is asked.
const (
	releaseTime  = 90 * time.Second
	releaseEvery = 10 * time.Second
)

// AttachShare is the activity domain.AttachShare: it ensures that a guest which runs has a share, which is mounted.
// Conflict: it does not run, its memory is not shared, it has another share by that tag, libvirt has no cgroup
// for it (releases of libvirt without one end at this), or the guest's machine has no place for the device.
func (a *Activities) AttachShare(ctx context.Context, in ShareInput) error {
	if a.Shares == nil {
		return compute.Errorf(compute.Invalid, "server %s: this host has no shares", in.Server)
	}
	unlock, err := a.lock(ctx, in.Server)
	if err != nil {
		return err
	}
	defer unlock()
	if err := ctx.Err(); err != nil { // its undo may have been waiting as well
		return err
	}
	dir := a.Shares.Path(in.Share)
	device := filesystemXML(dir, in.Tag)
	doc, err := device.Marshal()
	if err != nil {
		return err
	}
	err = a.Client.Do(ctx, func(l *libvirt.Libvirt) error {
		dom, has, err := a.live(l, in, func(f libvirtxml.DomainFilesystem) bool {
			return folderOf(f) == dir || f.Target != nil && f.Target.Dir == in.Tag
		})
		switch {
		case err != nil:
			return err
		case dom == nil:
			return compute.Errorf(compute.Conflict, "server %s: its machine does not run", in.Server)
		case len(has) == 1 && folderOf(has[0]) == dir && has[0].Target.Dir == in.Tag:
			return nil
		case len(has) > 0:
			return compute.Errorf(compute.Conflict, "server %s: its guest has another share by the tag %q, or share %s by another tag", in.Server, in.Tag, in.Share)
		case !hasCgroup(l, *dom):
			return compute.Errorf(compute.Conflict, "server %s: libvirt has no cgroup for its machine", in.Server)
		}
		if err := a.checkMounted(ctx, in.Server, in.Share); err != nil {
			return err
		}
		return attachFailure(in, l.DomainAttachDeviceFlags(*dom, doc, uint32(libvirt.DomainAffectLive)))
	})
	return a.withoutFolders([]compute.ShareMapping{{Share: in.Share}}, err)
}

// checkMounted sees that a share is mounted: a guest whose host has restarted since would be given the empty folder in its place, and
// write to the host's own disk, in clear. Conflict: it is not.
func (a *Activities) checkMounted(ctx context.Context, server compute.ServerID, share compute.ShareID) error {
	mounted, err := a.Shares.Mounted(ctx, share)
	if err == nil && !mounted {
		err = compute.Errorf(compute.Conflict, "server %s: share %s is not mounted on its host any more: try again", server, share)
	}
	return err
}

// withoutFolders gives an error of libvirt's that does not tell where shares are mounted (SH-25).
func (a *Activities) withoutFolders(shares []compute.ShareMapping, err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	for _, m := range shares {
		text = strings.ReplaceAll(text, a.Shares.Path(m.Share), "of share "+m.Share.String())
	}
	if text == err.Error() {
		return err
	}
	return compute.Errorf(kind(err), "%s", text)
}

// attachFailure gives a refusal of libvirt or QEMU its kind: nothing changes it as long as the guest runs.
func attachFailure(in ShareInput, err error) error {
	if isCode(err, libvirt.ErrInternalError) || isCode(err, libvirt.ErrOperationFailed) || isCode(err, libvirt.ErrOperationInvalid) ||
		isCode(err, libvirt.ErrConfigUnsupported) || isCode(err, libvirt.ErrXMLError) {
		return compute.Errorf(compute.Conflict, "share %s cannot be given to the guest of server %s while it runs: %w", in.Share, in.Server, err)
	}
	return err
}

// DetachShare is the activity domain.DetachShare: it ensures that a guest has a share no more. One that is off, or is
// not there, has none. Conflict: the guest does not give it back.
func (a *Activities) DetachShare(ctx context.Context, in ShareInput) error {
	if a.Shares == nil {
		return nil
	}
	unlock, err := a.lock(ctx, in.Server)
	if err != nil {
		return err
	}
	defer unlock()
	dir := a.Shares.Path(in.Share)
	g := giveUp{
		phase: "detach", timeout: releaseTime, again: releaseEvery,
		kept: compute.Errorf(compute.Conflict, "the guest of server %s does not give share %s back", in.Server, in.Share),
	}
	return g.await(ctx, func(ask bool) (bool, error) { return a.release(ctx, in, dir, ask) })
}

// release asks a guest, if it is to be asked, to give a file system back, and reports whether it has it still.
func (a *Activities) release(ctx context.Context, in ShareInput, dir string, ask bool) (has bool, err error) {
	err = a.Client.Do(ctx, func(l *libvirt.Libvirt) error {
		dom, all, err := a.live(l, in, func(f libvirtxml.DomainFilesystem) bool { return folderOf(f) == dir })
		has = len(all) > 0
		if err != nil || dom == nil || !has || !ask {
			return err
		}
		doc, err := all[0].Marshal()
		if err != nil {
			return err
		}
		err = l.DomainDetachDeviceFlags(*dom, doc, uint32(libvirt.DomainAffectLive))
		for _, code := range []libvirt.ErrorNumber{
			libvirt.ErrDeviceMissing, libvirt.ErrOperationFailed, libvirt.ErrOperationInvalid, libvirt.ErrInternalError, libvirt.ErrNoDomain,
		} {
			if isCode(err, code) { // it is gone, or the guest is at it: the next look tells
				return nil
			}
		}
		return err
	})
	return has, err
}

// live gives the domain of a server's guest that runs, or is paused, and those of its file systems that are; nil: there is none.
func (a *Activities) live(l *libvirt.Libvirt, in ShareInput, are func(libvirtxml.DomainFilesystem) bool) (*libvirt.Domain, []libvirtxml.DomainFilesystem, error) {
	dom, found, err := lookup(l, in.Server)
	if err != nil || !found {
		return nil, nil, err
	}
	active, err := l.DomainIsActive(dom)
	if isCode(err, libvirt.ErrNoDomain) || err == nil && active == 0 {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	devices, err := devicesOf(l, dom, 0)
	if isCode(err, libvirt.ErrNoDomain) {
		return nil, nil, nil
	}
	return &dom, slices.DeleteFunc(devices.Filesystems, func(f libvirtxml.DomainFilesystem) bool { return !are(f) }), err
}
