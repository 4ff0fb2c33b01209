package domain

import (
	"path/filepath"

	"libvirt.org/go/libvirtxml"

	"strongroom/compute"
)

// scsiSlot is the place of the SCSI controller: beside the disks, so that no other
// device moves when a server has one.
const scsiSlot = 0x0f

// addConfigDrive gives the domain a CD-ROM with the server's metadata. It is
// encrypted like the root disk, with a master key of its own and the same passphrase.
func addConfigDrive(devices *libvirtxml.DomainDeviceList, s compute.Server, h Shape) error {
	bus, err := compute.CDROMBus(s.Image)
	if err != nil {
		return err
	}
	dev := libvirtxml.DomainDisk{
		Device:   "cdrom",
		Driver:   &libvirtxml.DomainDiskDriver{Name: "qemu", Type: "raw", Cache: h.Cache},
		Source:   &libvirtxml.DomainDiskSource{File: &libvirtxml.DomainDiskSourceFile{File: filepath.Join(h.Dir, compute.ConfigDriveFile)}},
		Target:   &libvirtxml.DomainDiskTarget{Dev: "sda", Bus: bus},
		ReadOnly: &libvirtxml.DomainDiskReadOnly{},
	}
	if key := s.ConfigDriveSecret(); key != nil {
		dev.Source.Encryption = luks(*key)
	}
	devices.Disks = append(devices.Disks, dev)
	if bus == "scsi" {
		index := uint(0)
		devices.Controllers = append(devices.Controllers, libvirtxml.DomainController{
			Type: "scsi", Index: &index, Model: "virtio-scsi", Address: onFirstBus(scsiSlot),
		})
	}
	return nil
}

// onFirstBus is a place on the machine's first PCI bus.
func onFirstBus(slot uint) *libvirtxml.DomainAddress {
	domain, bus, function := uint(0), uint(0), uint(0)
	return &libvirtxml.DomainAddress{PCI: &libvirtxml.DomainAddressPCI{Domain: &domain, Bus: &bus, Slot: &slot, Function: &function}}
}
