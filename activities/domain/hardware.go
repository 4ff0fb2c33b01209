package domain

import (
	"slices"

	"libvirt.org/go/libvirtxml"

	"strongroom/compute"
)

// The places of devices that a server may have, beside its disks, so that no other device moves when it has one.
const (
	pointerSlot  = 0x0c
	channelSlot  = 0x0d
	watchdogSlot = 0x0e
)

// guestAgent is the name by which QEMU's guest agent looks for its channel.
const guestAgent = "org.qemu.guest_agent.0"

// spinlockRetries is how often a Windows guest tries a lock before it tells the hypervisor: what Nova gives it.
const spinlockRetries = 8191

// addHardware gives a machine the devices that its image and flavor ask for.
func addHardware(d *libvirtxml.Domain, w compute.Hardware) {
	if t := w.Topology; t != nil {
		d.CPU.Topology = &libvirtxml.DomainCPUTopology{Sockets: t.Sockets, Cores: t.Cores, Threads: t.Threads}
	}
	if w.Windows {
		addWindows(d)
	}
	if w.Watchdog != "" {
		d.Devices.Watchdogs = []libvirtxml.DomainWatchdog{{Model: "i6300esb", Action: w.Watchdog, Address: onFirstBus(watchdogSlot)}}
	}
	if w.GuestAgent {
		index := uint(0)
		d.Devices.Controllers = append(d.Devices.Controllers, libvirtxml.DomainController{Type: "virtio-serial", Index: &index, Address: onFirstBus(channelSlot)})
		d.Devices.Channels = []libvirtxml.DomainChannel{{
			Source: &libvirtxml.DomainChardevSource{UNIX: &libvirtxml.DomainChardevSourceUNIX{Mode: "bind"}}, // libvirt names it
			Target: &libvirtxml.DomainChannelTarget{VirtIO: &libvirtxml.DomainChannelTargetVirtIO{Name: guestAgent}},
		}}
	}
	switch w.Tablet {
	case "usb":
		i := slices.IndexFunc(d.Devices.Controllers, func(c libvirtxml.DomainController) bool { return c.Type == "usb" })
		d.Devices.Controllers[i] = libvirtxml.DomainController{Type: "usb", Model: "qemu-xhci", Address: onFirstBus(pointerSlot)}
		d.Devices.Inputs = []libvirtxml.DomainInput{{Type: "tablet", Bus: "usb"}}
	case "virtio":
		d.Devices.Inputs = []libvirtxml.DomainInput{{Type: "tablet", Bus: "virtio", Address: onFirstBus(pointerSlot)}}
	}
}

// addWindows gives a machine what Windows expects: a clock of local time, and, where the host's CPU runs it, the hypervisor that it knows.
func addWindows(d *libvirtxml.Domain) {
	d.Clock.Offset = "localtime"
	if d.Type != "kvm" {
		return
	}
	on := func() *libvirtxml.DomainFeatureState { return &libvirtxml.DomainFeatureState{State: "on"} }
	d.Features.HyperV = &libvirtxml.DomainFeatureHyperV{
		Relaxed: on(), VAPIC: on(), VPIndex: on(), Synic: on(),
		Spinlocks: &libvirtxml.DomainFeatureHyperVSpinlocks{DomainFeatureState: *on(), Retries: spinlockRetries},
		STimer:    &libvirtxml.DomainFeatureHyperVSTimer{DomainFeatureState: *on()},
	}
	d.Clock.Timer = append(d.Clock.Timer, libvirtxml.DomainTimer{Name: "hypervclock", Present: "yes"})
}

// addDiskControllers gives a machine the controllers of its disks and CD-ROMs on SCSI and SATA. There is one on SCSI for all, of which libvirt would
// make one for each seven.
func addDiskControllers(d *libvirtxml.DomainDeviceList) {
	index, has := uint(0), map[string]bool{}
	for i, disk := range d.Disks {
		if has[disk.Target.Bus] = true; disk.Target.Bus == compute.BusSCSI {
			unit := uint(disk.Target.Dev[len(disk.Target.Dev)-1] - 'a')
			d.Disks[i].Address = &libvirtxml.DomainAddress{Drive: &libvirtxml.DomainAddressDrive{Controller: &index, Bus: &index, Target: &index, Unit: &unit}}
		}
	}
	if has[compute.BusSCSI] {
		d.Controllers = append(d.Controllers, libvirtxml.DomainController{Type: "scsi", Index: &index, Model: "virtio-scsi", Address: onFirstBus(scsiSlot)})
	}
	if has[compute.BusSATA] {
		d.Controllers = append(d.Controllers, libvirtxml.DomainController{Type: "sata", Index: &index})
	}
}

// cardXML is the model of an interface, and its queues.
func cardXML(n compute.NIC) (*libvirtxml.DomainInterfaceModel, *libvirtxml.DomainInterfaceDriver) {
	model := &libvirtxml.DomainInterfaceModel{Type: n.ModelOf()}
	if n.Queues < 2 {
		return model, nil
	}
	return model, &libvirtxml.DomainInterfaceDriver{Queues: uint(n.Queues)}
}
