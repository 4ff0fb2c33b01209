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

// InterfaceInput names an interface of a server, on a port that is bound to its host.
type InterfaceInput struct {
	Server  compute.ServerID `json:"server"`
	Network compute.Network  `json:"network"`
	NIC     compute.NIC      `json:"nic,omitzero"` // what is plugged in
}

const (
	defaultUnplugTimeout = 2 * time.Minute
	briefUnplug          = 15 * time.Second
	unplugAgain          = 20 * time.Second
)

// Plug is the activity domain.Plug: it ensures that a server's domain has an interface, its guest
// at once where that runs. A server that has no domain gets it with its next start. Conflict: the port is not
// bound, or the machine has no room for another device.
func (a *Activities) Plug(ctx context.Context, in InterfaceInput) error {
	unlock, err := a.lock(ctx, in.Server)
	if err != nil {
		return err
	}
	defer unlock()
	if err := a.bridge(ctx, in.Network); err != nil {
		return compute.Errorf(kind(err), "server %s: network %s: %w", in.Server, in.Network.UUID, err)
	}
	text, err := a.plugged(in).Marshal()
	if err != nil {
		return compute.Errorf(compute.Invalid, "port %s: %w", in.Network.Port.ID, err)
	}
	err = a.Client.Do(ctx, func(l *libvirt.Libvirt) error {
		if err := eachDocument(l, in, func(dom libvirt.Domain, at libvirt.DomainDeviceModifyFlags, has *libvirtxml.DomainInterface) error {
			switch {
			case has == nil:
				return gone(l.DomainAttachDeviceFlags(dom, text, uint32(at)))
			case isCutOff(*has): // a guest kept it when it was to go
				return setLink(l, dom, at, *has, nil)
			}
			return nil
		}); err != nil {
			return err
		}
		return eachDocument(l, in, func(_ libvirt.Domain, _ libvirt.DomainDeviceModifyFlags, has *libvirtxml.DomainInterface) error {
			if has == nil { // the guest was started or stopped meanwhile
				return compute.Errorf(compute.Unavailable, "server %s: port %s is not plugged", in.Server, in.Network.Port.ID)
			}
			return nil
		})
	})
	if err != nil && strings.Contains(err.Error(), "No more available PCI slots") {
		return compute.Errorf(compute.Conflict, "server %s has no PCI slot for another device: a stop and a start give it some", in.Server)
	}
	return err
}

// plugged is an interface as a guest that runs gets it: as filtered as one that it was started with.
func (a *Activities) plugged(in InterfaceInput) *libvirtxml.DomainInterface {
	dev := interfaceXML(in.Server, in.NIC, 0, in.Network, Network{Bridge: in.Network.Port.Bridge}, a.Filter)
	return &dev
}

// Unplug is the activity domain.Unplug: it ensures that a server's domain does not have an interface.
// A guest that runs is asked, and has UnplugTimeout to give it up. Conflict: it did not, or is paused.
func (a *Activities) Unplug(ctx context.Context, in InterfaceInput) error {
	if !in.Network.PortExists() {
		return compute.Errorf(compute.Invalid, "server %s: the interface has no port", in.Server)
	}
	unlock, err := a.lock(ctx, in.Server)
	if err != nil {
		return err
	}
	defer unlock()
	return a.unplug(ctx, in, a.UnplugTimeout)
}

// unplug is Unplug, by who has the server's lock, with a time-out.
func (a *Activities) unplug(ctx context.Context, in InterfaceInput, timeout time.Duration) error {
	g := giveUp{
		phase: "unplug", timeout: timeout, again: unplugAgain,
		kept: compute.Errorf(compute.Conflict, "Device detach failed for port %s: its guest did not give the device up within %s", in.Network.Port.ID, timeout),
	}
	return g.await(ctx, func(ask bool) (bool, error) { return a.askToUnplug(ctx, in, ask) })
}

// cutOff takes the link from an interface that a guest keeps.
func (a *Activities) cutOff(ctx context.Context, in InterfaceInput) error {
	return a.Client.Do(ctx, func(l *libvirt.Libvirt) error {
		return eachDocument(l, in, func(dom libvirt.Domain, at libvirt.DomainDeviceModifyFlags, has *libvirtxml.DomainInterface) error {
			if has == nil || at != libvirt.DomainDeviceModifyLive {
				return nil
			}
			return setLink(l, dom, at, *has, &libvirtxml.DomainInterfaceLink{State: "down"})
		})
	})
}

// isCutOff reports whether an interface has no link: cutOff alone takes one.
func isCutOff(i libvirtxml.DomainInterface) bool { return i.Link != nil && i.Link.State == "down" }

// setLink changes the link of an interface; nil: it is up.
func setLink(l *libvirt.Libvirt, dom libvirt.Domain, at libvirt.DomainDeviceModifyFlags, has libvirtxml.DomainInterface, link *libvirtxml.DomainInterfaceLink) error {
	has.Link = link
	text, err := has.Marshal()
	if err != nil {
		return compute.Errorf(compute.Corrupt, "what libvirt says of an interface cannot be written: %w", err)
	}
	return gone(l.DomainUpdateDeviceFlags(dom, text, at))
}

// askToUnplug asks the domain's guest for the interface where ask says so, and reports whether the guest has it. Once
// that does not, it takes it out of the domain's definition.
func (a *Activities) askToUnplug(ctx context.Context, in InterfaceInput, ask bool) (plugged bool, err error) {
	err = a.Client.Do(ctx, func(l *libvirt.Libvirt) error {
		return eachDocument(l, in, func(dom libvirt.Domain, at libvirt.DomainDeviceModifyFlags, has *libvirtxml.DomainInterface) error {
			live := at == libvirt.DomainDeviceModifyLive
			if has == nil || plugged { // a guest that keeps it keeps it over its reboots
				return nil
			}
			if live {
				if plugged = true; !ask {
					return nil
				}
				switch state, err := power(l, dom); {
				case err != nil:
					return gone(err)
				case state == compute.PowerPaused:
					return compute.Errorf(compute.Conflict, "Device detach failed for port %s: its guest is paused, and cannot give the device up", in.Network.Port.ID)
				}
			}
			text, err := has.Marshal()
			if err != nil {
				return compute.Errorf(compute.Corrupt, "server %s: what libvirt says of its domain cannot be written: %w", in.Server, err)
			}
			err = gone(l.DomainDetachDeviceFlags(dom, text, uint32(at)))
			switch {
			case isCode(err, libvirt.ErrDeviceMissing): // the guest was faster
				return nil
			case live && err != nil && strings.Contains(err.Error(), "in the process of unplug"):
				return nil
			}
			return err
		})
	})
	return plugged, err
}

// eachDocument calls do for what a domain is now, where it runs, and for what it is from its next start on: with how
// that is changed, and the interface as it stands there; nil: it does not. Nothing is done where there is no domain.
func eachDocument(l *libvirt.Libvirt, in InterfaceInput, do func(libvirt.Domain, libvirt.DomainDeviceModifyFlags, *libvirtxml.DomainInterface) error) error {
	dom, found, err := lookup(l, in.Server)
	if err != nil || !found {
		return err
	}
	active, err := l.DomainIsActive(dom)
	if err != nil {
		return gone(err)
	}
	persistent, err := l.DomainIsPersistent(dom)
	if err != nil {
		return gone(err)
	}
	for _, d := range []struct {
		is   bool
		at   libvirt.DomainDeviceModifyFlags
		view libvirt.DomainXMLFlags
	}{
		{active != 0, libvirt.DomainDeviceModifyLive, 0},
		{persistent != 0, libvirt.DomainDeviceModifyConfig, libvirt.DomainXMLInactive},
	} {
		if !d.is {
			continue
		}
		devices, err := devicesOf(l, dom, d.view)
		if err != nil {
			return gone(err)
		}
		if err := do(dom, d.at, interfaceOf(devices, in.Network)); err != nil {
			return err
		}
	}
	return nil
}

// interfaceOf finds the interface on a port; nil: there is none.
func interfaceOf(devices libvirtxml.DomainDeviceList, n compute.Network) *libvirtxml.DomainInterface {
	at := slices.IndexFunc(devices.Interfaces, func(i libvirtxml.DomainInterface) bool {
		return i.Target != nil && i.Target.Dev == n.Port.ID.TapName()
	})
	if at < 0 {
		return nil
	}
	return &devices.Interfaces[at]
}
