package domain

import (
	"context"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"
	"libvirt.org/go/libvirtxml"

	"strongroom/compute"
)

// virtiofsd is the program that serves a folder to a guest. libvirt finds it by itself, by
// QEMU's description of it.
var virtiofsd = []string{"/usr/lib/qemu/virtiofsd", "/usr/libexec/virtiofsd", "/usr/lib/virtiofsd"}

// addShares gives a domain its shares, each under its tag.
func addShares(d *libvirtxml.Domain, s compute.Server, h Shape) error {
	for _, m := range s.Shares {
		dir := h.Shares[m.Share]
		if dir == "" {
			return compute.Errorf(compute.Invalid, "share %s of server %s is not mounted", m.Share, s.ID)
		}
		d.Devices.Filesystems = append(d.Devices.Filesystems, filesystemXML(dir, m.Tag))
	}
	return nil
}

func filesystemXML(dir, tag string) libvirtxml.DomainFilesystem {
	return libvirtxml.DomainFilesystem{
		AccessMode: "passthrough",
		Driver:     &libvirtxml.DomainFilesystemDriver{Type: "virtiofs", Queue: 1024},
		Source:     &libvirtxml.DomainFilesystemSource{Mount: &libvirtxml.DomainFilesystemSourceMount{Dir: dir}},
		Target:     &libvirtxml.DomainFilesystemTarget{Dir: tag},
	}
}

// noShares says why servers can have no shares on this host; "": they can.
func (a *Activities) noShares(machine libvirtxml.DomainCaps, libvirt, qemu uint64) string {
	if a.Shares == nil {
		return "host.shares is empty"
	}
	if why := tooOldForShares(libvirt, qemu); why != "" {
		return why
	}
	for _, e := range backing(machine) {
		if e.Name == "sourceType" && !slices.Contains(e.Values, "memfd") {
			return "QEMU cannot share a guest's memory (memfd)"
		}
	}
	found := slices.ContainsFunc(virtiofsd, func(path string) bool { _, err := exec.LookPath(path); return err == nil })
	if !found {
		return "virtiofsd is not installed (" + strings.Join(virtiofsd, ", ") + ")"
	}
	return ""
}

func backing(machine libvirtxml.DomainCaps) []libvirtxml.DomainCapsEnum {
	if machine.MemoryBacking == nil {
		return nil
	}
	return machine.MemoryBacking.Enums
}

// HasFolder reports whether a server's guest runs, or is paused, and has a folder of the host
// as the source of a file system.
func (a *Activities) HasFolder(ctx context.Context, id compute.ServerID, path string) (has bool, err error) {
	err = a.Client.Do(ctx, func(l *libvirt.Libvirt) error {
		dom, found, err := lookup(l, id)
		if err != nil || !found {
			return err
		}
		switch active, err := l.DomainIsActive(dom); {
		case isCode(err, libvirt.ErrNoDomain), err == nil && active == 0:
			return nil
		case err != nil:
			return err
		}
		has, err = hasFolder(l, dom, path)
		return err
	})
	return has, err
}

// WithFolder gives the servers whose guests run, or are paused, and have a folder of the host, in no order.
func (a *Activities) WithFolder(ctx context.Context, path string) (servers []compute.ServerID, err error) {
	err = a.Client.Do(ctx, func(l *libvirt.Libvirt) error {
		active, _, err := l.ConnectListAllDomains(1, libvirt.ConnectListDomainsActive)
		if err != nil {
			return err
		}
		servers = nil
		for _, dom := range active {
			has, err := hasFolder(l, dom, path)
			if err != nil {
				return err
			}
			if has {
				servers = append(servers, compute.ServerID{UUID: uuid.UUID(dom.UUID)})
			}
		}
		return nil
	})
	return servers, err
}

// hasFolder reports whether a domain has a folder of the host as the source of a file system. One that has just ended has none.
// A description in which the name of the folder's parent, which is a share's, is nowhere is not parsed: it may be anybody's.
func hasFolder(l *libvirt.Libvirt, dom libvirt.Domain, path string) (bool, error) {
	text, err := l.DomainGetXMLDesc(dom, 0)
	if isCode(err, libvirt.ErrNoDomain) {
		return false, nil
	}
	if err != nil || !strings.Contains(text, filepath.Base(filepath.Dir(path))) {
		return false, err
	}
	devices, err := devicesIn(dom, text)
	return slices.ContainsFunc(devices.Filesystems, func(f libvirtxml.DomainFilesystem) bool { return folderOf(f) == path }), err
}

// devicesOf are a domain's devices: as they are now, or as view says.
func devicesOf(l *libvirt.Libvirt, dom libvirt.Domain, view libvirt.DomainXMLFlags) (libvirtxml.DomainDeviceList, error) {
	text, err := l.DomainGetXMLDesc(dom, view)
	if err != nil {
		return libvirtxml.DomainDeviceList{}, err
	}
	return devicesIn(dom, text)
}

// devicesIn are the devices in a domain's description.
func devicesIn(dom libvirt.Domain, text string) (libvirtxml.DomainDeviceList, error) {
	var doc libvirtxml.Domain
	if err := doc.Unmarshal(text); err != nil {
		return libvirtxml.DomainDeviceList{}, compute.Errorf(compute.Corrupt, "server %s: what libvirt says of its domain cannot be read: %w", uuid.UUID(dom.UUID), err)
	}
	if doc.Devices == nil {
		return libvirtxml.DomainDeviceList{}, nil
	}
	return *doc.Devices, nil
}

// folderOf is the host's folder that a file system shows; "": none.
func folderOf(f libvirtxml.DomainFilesystem) string {
	if f.Source == nil || f.Source.Mount == nil {
		return ""
	}
	return f.Source.Mount.Dir
}

// Daemon gives the process that listens at libvirt's socket, 0 if it is not visible from here.
func (c *Client) Daemon(ctx context.Context) (pid int, err error) {
	conn, err := c.dial(ctx)
	if err != nil {
		return 0, translate(err)
	}
	defer func() { _ = conn.Close() }()
	who, err := peer(conn.(*net.UnixConn))
	if err != nil {
		return 0, translate(err)
	}
	return int(who.Pid), nil
}
