package compute

import (
	"fmt"
	"strings"
)

// DiskRole says what a local disk is for.
type DiskRole string

// The roles of local disks.
const (
	RootDisk      DiskRole = "root"
	EphemeralDisk DiskRole = "ephemeral"
	SwapDisk      DiskRole = "swap"
	RescueDisk    DiskRole = "rescue" // only while a server is rescued, see PlanRescue
)

// DiskFormat is how a disk is encrypted at rest.
type DiskFormat string

// The encryption formats (decision 7). FormatNone means not encrypted.
const (
	FormatNone   DiskFormat = ""
	FormatLUKS   DiskFormat = "luks"
	FormatLUKSv2 DiskFormat = "luksv2"
	FormatPlain  DiskFormat = "plain"
)

// OnDevice reports whether a disk of the format is a block device of the host, which
// cryptsetup opens. The others are files, and QEMU decrypts them.
func (f DiskFormat) OnDevice() bool { return f == FormatLUKSv2 || f == FormatPlain }

// Disk is one local block device of a server: the block device mapping of the
// encryption document (EE-07) and the plan that a host acts on (EE-31).
type Disk struct {
	ID          DiskID   `json:"id"`
	Role        DiskRole `json:"role"`
	Index       int      `json:"index"`       // 0, 1 … among disks of the role
	DeviceName  string   `json:"device_name"` // /dev/vda …
	Bus         string   `json:"bus"`         // virtio
	SizeMB      int64    `json:"size_mb"`
	MaxMB       int64    `json:"max_mb,omitempty"`       // of a disk whose SizeMB is 0, as its image is no larger: 0 for DefaultMaxImageDiskGB
	BootIndex   int      `json:"boot_index"`             // 0 for the root disk, -1 for the others
	GuestFormat string   `json:"guest_format,omitempty"` // swap, ext4 …: what the guest is meant to make in it, "" for nothing
	Image       *ImageID `json:"image,omitempty"`        // the source of a root or rescue disk
	Source      *Image   `json:"source,omitempty"`       // its record, where that is not the server's
	File        string   `json:"file,omitempty"`         // its file's name, "" for the role's: see Name
	Whole       bool     `json:"whole,omitempty"`        // encrypted, with all of its image's data in itself: no file of the image is under it

	Encrypted         bool              `json:"encrypted"`
	Secret            *SecretID         `json:"encryption_secret_uuid,omitempty"`
	BackingSecret     *SecretID         `json:"backing_encryption_secret_uuid,omitempty"`
	Format            DiskFormat        `json:"encryption_format,omitempty"`
	EncryptionOptions map[string]string `json:"encryption_options,omitempty"` // what was really used (EE-08)

	Shelved *ShelvedDisk `json:"shelved,omitempty"` // its data, while the server is shelved
}

// HeaderLUKS2MB is how much of a volume cryptsetup takes for a LUKS2 header, its copy and
// their key slots.
const HeaderLUKS2MB = 16

// extentMB is what LVM gives volumes in, unless a group was made with larger extents.
const extentMB = 4

// volumeMB is how large the volume is that holds the disk.
func (d Disk) volumeMB() int {
	mb := int(d.SizeMB)
	if d.Format == FormatLUKSv2 {
		mb += HeaderLUKS2MB
	}
	return (mb + extentMB - 1) / extentMB * extentMB
}

// OnDevice is that of the disk's format.
func (d Disk) OnDevice() bool { return d.Encrypted && d.Format.OnDevice() }

// HasBackingFile reports whether the disk can have a file of its image under it. Earlier releases did not note Whole of disks on devices.
func (d Disk) HasBackingFile() bool { return !d.Whole && !d.OnDevice() }

// Name is the disk's file name in the server's folder: disk, disk.eph0, disk.swap,
// disk.rescue. One that took the place of another has a name of its own, so that both exist
// beside each other until it is decided which stays.
func (d Disk) Name() string {
	if d.File != "" {
		return d.File
	}
	switch d.Role {
	case EphemeralDisk:
		return "disk.eph" + string(rune('0'+d.Index))
	case SwapDisk:
		return "disk.swap"
	case RescueDisk:
		return rescueFile
	default:
		return "disk"
	}
}

// serialLength is how much of its serial a virtio disk shows.
const serialLength = 20

// Serial is by what the guest knows the disk (/dev/disk/by-id/virtio-…): as much
// of its id as a virtio disk shows.
func (d Disk) Serial() string { return d.ID.String()[:serialLength] }

// The slots of disks on the first PCI bus: what the machine itself needs is below.
const (
	firstDiskSlot = 0x10
	lastDiskSlot  = 0x1c
)

// letter is the number of the disk's device name: 0 for /dev/vda.
func (d Disk) letter() int {
	if d.DeviceName == "" {
		return 0
	}
	return int(d.DeviceName[len(d.DeviceName)-1]) - 'a'
}

// PCISlot is the disk's place on the guest's first PCI bus, by the letter of its
// device name. That bus has the same number in every guest; those behind bridges
// are numbered by its firmware. There is none for disks of another bus than
// virtio, nor behind the thirteenth: libvirt gives these a place.
func (d Disk) PCISlot() (slot uint, ok bool) {
	letter, named := strings.CutPrefix(d.DeviceName, "/dev/vd")
	if d.Bus != BusVirtio || !named || len(letter) != 1 || letter < "a" {
		return 0, false
	}
	slot = firstDiskSlot + uint(letter[0]-'a')
	return slot, slot <= lastDiskSlot
}

// PCIAddress is where the guest finds the disk on its PCI buses
// (/sys/bus/pci/devices/…), "" if nobody knows before it starts.
func (d Disk) PCIAddress() string {
	slot, ok := d.PCISlot()
	if !ok {
		return ""
	}
	return fmt.Sprintf("0000:00:%02x.0", slot)
}

// TPMVersion is a version of the TPM specification.
type TPMVersion string

// TPMModel is the interface a vTPM shows to the guest.
type TPMModel string

// The versions and models that exist together: 1.2/TIS, 2.0/TIS, 2.0/CRB (TPM-03).
const (
	TPM12  TPMVersion = "1.2"
	TPM20  TPMVersion = "2.0"
	TPMTIS TPMModel   = "tpm-tis"
	TPMCRB TPMModel   = "tpm-crb"
)

// SecretSecurity says who may open a server's keys (hw:tpm_secret_security).
type SecretSecurity string

// The modes of SecretSecurity.
const (
	SecurityUser       SecretSecurity = "user"
	SecurityHost       SecretSecurity = "host"
	SecurityDeployment SecretSecurity = "deployment"
)

// TPM is the vTPM that a server asks for.
type TPM struct {
	Version  TPMVersion     `json:"version"`
	Model    TPMModel       `json:"model"`
	Security SecretSecurity `json:"security"`
	Secret   *SecretID      `json:"secret,omitempty"`

	// Endorsed is the operation that made its state, where certificates of its endorsement keys were issued then.
	Endorsed OperationID `json:"endorsed,omitempty"`
}

// PassphraseBytes are the random bytes behind a passphrase before base64:
// 64 for a disk (EE-09), 384 for a vTPM (TPM-09).
const (
	DiskPassphraseBytes = 64
	TPMPassphraseBytes  = 384
)
