package domain

import (
	"slices"

	"libvirt.org/go/libvirtxml"

	"strongroom/compute"
)

// adoptPlaces gives the devices of a machine the places on its PCI buses that the same devices have in another's
// document, and its buses are those: what was plugged in or out, and how many ports a host gives to machines, decides
// about both. Numbers are taken from there, and words of libvirt's.
func adoptPlaces(is, was *libvirtxml.DomainDeviceList) {
	if is == nil || was == nil {
		return
	}
	is.Controllers = slices.DeleteFunc(is.Controllers, isPCI)
	for _, c := range was.Controllers {
		if isPCI(c) && machineType(c.Model) {
			is.Controllers = append(is.Controllers, busOf(c))
		}
	}
	for i, n := range is.Interfaces {
		at := slices.IndexFunc(was.Interfaces, func(w libvirtxml.DomainInterface) bool {
			return n.MAC != nil && w.MAC != nil && w.MAC.Address == n.MAC.Address
		})
		if at >= 0 {
			is.Interfaces[i].Address = placeOf(was.Interfaces[at].Address)
			adoptCard(&is.Interfaces[i], was.Interfaces[at])
		}
	}
	for i, c := range is.Controllers { // libvirt finds some of them a place
		at := slices.IndexFunc(was.Controllers, func(w libvirtxml.DomainController) bool {
			return !isPCI(w) && w.Type == c.Type && w.Index != nil && c.Index != nil && *w.Index == *c.Index
		})
		if at >= 0 && !isPCI(c) && c.Address == nil {
			is.Controllers[i].Address = placeOf(was.Controllers[at].Address)
		}
	}
	for i := range is.Disks {
		at := slices.IndexFunc(was.Disks, func(w libvirtxml.DomainDisk) bool {
			return w.Target != nil && is.Disks[i].Target != nil && w.Target.Dev == is.Disks[i].Target.Dev && w.Target.Bus == "virtio"
		})
		if at >= 0 && is.Disks[i].Address == nil {
			is.Disks[i].Address = placeOf(was.Disks[at].Address)
		}
	}
	for i := range min(len(is.RNGs), len(was.RNGs)) {
		is.RNGs[i].Address = placeOf(was.RNGs[i].Address)
	}
	for i := range min(len(is.Filesystems), len(was.Filesystems)) {
		is.Filesystems[i].Address = placeOf(was.Filesystems[i].Address)
	}
	adoptScreen(is, was)
	if is.MemBalloon != nil && was.MemBalloon != nil {
		is.MemBalloon.Address = placeOf(was.MemBalloon.Address)
	}
}

// adoptCard gives an interface the model and the queues that the guest knows: one that a worker of an earlier release plugged in may have others
// than the server's image asks for.
func adoptCard(is *libvirtxml.DomainInterface, was libvirtxml.DomainInterface) {
	if was.Model != nil && compute.IsNIC(was.Model.Type) {
		is.Model.Type = was.Model.Type
	}
	is.Driver = nil
	if was.Driver != nil && was.Driver.Queues > 1 {
		is.Driver = &libvirtxml.DomainInterfaceDriver{Queues: was.Driver.Queues}
	}
}

func isPCI(c libvirtxml.DomainController) bool { return c.Type == "pci" }

// busOf is a PCI controller, with nothing but its place and numbers.
func busOf(c libvirtxml.DomainController) libvirtxml.DomainController {
	out := libvirtxml.DomainController{Type: c.Type, Index: c.Index, Model: c.Model, Address: placeOf(c.Address)}
	if c.PCI != nil && c.PCI.Target != nil {
		out.PCI = &libvirtxml.DomainControllerPCI{Target: &libvirtxml.DomainControllerPCITarget{Chassis: c.PCI.Target.Chassis, Port: c.PCI.Target.Port}}
	}
	return out
}

// placeOf is a place on a PCI bus; nil: it is another one.
func placeOf(a *libvirtxml.DomainAddress) *libvirtxml.DomainAddress {
	if a == nil || a.PCI == nil {
		return nil
	}
	out := &libvirtxml.DomainAddressPCI{Domain: a.PCI.Domain, Bus: a.PCI.Bus, Slot: a.PCI.Slot, Function: a.PCI.Function}
	if a.PCI.MultiFunction == "on" {
		out.MultiFunction = "on"
	}
	return &libvirtxml.DomainAddress{PCI: out}
}
