package domain

import (
	"path/filepath"
	"strings"

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
		Target:   &libvirtxml.DomainDiskTarget{Dev: freeSD(devices), Bus: bus},
		ReadOnly: &libvirtxml.DomainDiskReadOnly{},
	}
	if key := s.ConfigDriveSecret(); key != nil {
		dev.Source.Encryption = luks(*key)
	}
	devices.Disks = append(devices.Disks, dev)
	return nil
}

// freeSD is the device name behind those of the disks on SCSI and SATA.
func freeSD(devices *libvirtxml.DomainDeviceList) string {
	next := byte('a')
	for _, d := range devices.Disks {
		if letter, ok := strings.CutPrefix(d.Target.Dev, "sd"); ok && len(letter) == 1 {
			next = max(next, letter[0]+1)
		}
	}
	return "sd" + string(next)
}

// onFirstBus is a place on the machine's first PCI bus.
func onFirstBus(slot uint) *libvirtxml.DomainAddress {
	domain, bus, function := uint(0), uint(0), uint(0)
	return &libvirtxml.DomainAddress{PCI: &libvirtxml.DomainAddressPCI{Domain: &domain, Bus: &bus, Slot: &slot, Function: &function}}
}
