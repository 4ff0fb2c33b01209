package compute

import (
	"cmp"
	"strings"
)

// OpRescue is the kind of a rescue.
const OpRescue OperationKind = "rescue"

// Rescue boots a server from a disk made of an image.
var Rescue = declare(Action[RescueArguments]{Facts: Facts{
	Kind:          OpRescue,
	Transition:    Transition{Task: TaskRescuing, From: []VMState{VMActive, VMStopped, VMError}},
	NoShares:      true,
	Boots:         true,
	Notifications: notifications("rescue"),
}})

// RescueArguments are the arguments of a rescue.
type RescueArguments struct {
	Image     Image `json:"image"`                 // what the server boots from meanwhile, as its record says now
	MaxDiskGB int   `json:"max_disk_gb,omitempty"` // how large its disk may be, 0: DefaultMaxImageDiskGB
}

// rescueFile begins the name of a rescue disk's file. The rest is the operation's, so that
// what an earlier rescue left, to be removed when its host is back, is not taken for it.
const rescueFile = "disk.rescue"

// PlanRescue gives the disk that a server boots from while it is rescued: an
// overlay on the image, and as large. It is encrypted if the image is, and only
// then, whatever the server's own disks are; the key is the image's, and no other
// is made (EE-26). Where the image does not say how large it is, its host sees; the disk is
// not larger than the arguments say. Invalid: it would be, or no host can boot from
// the image.
func PlanRescue(op OperationID, in RescueArguments) (Disk, error) {
	img, maxGB := in.Image, cmp.Or(in.MaxDiskGB, DefaultMaxImageDiskGB)
	bytes, err := guestBytes(img)
	if err != nil {
		return Disk{}, err
	}
	if err := checkDisk(int64(maxGB)<<30, img); err != nil {
		return Disk{}, err
	}
	if _, err := img.BackingFormat(); err != nil {
		return Disk{}, err
	}
	id := DiskID{op.Derive("disk/" + string(RescueDisk))}
	bus := rescueBus(img)
	d := Disk{
		ID: id, Role: RescueDisk, File: rescueFile + "." + id.String()[:8], DeviceName: DeviceName(bus, 0), Bus: bus,
		SizeMB: (bytes + bytesPerMB - 1) / bytesPerMB, Image: &img.ID, Source: &img,
	}
	if d.SizeMB == 0 {
		d.MaxMB = int64(maxGB) << 10
	}
	enc, err := img.Encryption()
	if err != nil || enc == nil {
		return d, err
	}
	d.Encrypted, d.Format, d.Secret, d.BackingSecret = true, FormatLUKS, &enc.Secret, &enc.Secret
	return d, nil
}

// guestBytes is the size of the disk in an image, 0 where only its bytes show it.
func guestBytes(img Image) (int64, error) {
	switch {
	case img.IsEncrypted():
		return img.decryptedBytes()
	case img.VirtualBytes == 0 && img.DiskFormat == ImageRaw:
		return img.SizeBytes, nil
	}
	return img.VirtualBytes, nil
}

// RescueDisk gives the disk that the server is rescued with. ok is false when it
// is not rescued.
func (s Server) RescueDisk() (d Disk, ok bool) {
	for _, d := range s.Disks {
		if d.Role == RescueDisk {
			return d, true
		}
	}
	return Disk{}, false
}

// CheckNotRescued refuses, with Conflict, what a server on a rescue disk cannot do
// and its state, which was reset, does not forbid.
func (s Server) CheckNotRescued() error {
	if _, rescued := s.RescueDisk(); rescued {
		return Errorf(Conflict, "Server %s is on its rescue disk: reboot it by force and unrescue it.", s.ID)
	}
	return nil
}

// RescuedWith gives the server with a rescue disk, first of all.
func (s Server) RescuedWith(d Disk) Server {
	s.Disks = append([]Disk{d}, s.Disks...)
	return s
}

// RunningState is the vm_state of the server when its machine runs.
func (s Server) RunningState() VMState {
	if _, rescued := s.RescueDisk(); rescued {
		return VMRescued
	}
	return VMActive
}

// Attached gives the server's disks as its machine has them. A rescue disk is the
// first one and what the machine boots from; each of the others of its bus has the next
// device name meanwhile, and nothing boots from it.
func (s Server) Attached() []Disk {
	rescue, rescued := s.RescueDisk()
	if !rescued {
		return s.Disks
	}
	out := []Disk{rescue}
	names := strings.TrimSuffix(rescue.DeviceName, "a")
	for _, d := range s.Unrescued().Disks {
		if strings.HasPrefix(d.DeviceName, names) {
			d.DeviceName = names + string(rune('a'+d.letter()+1))
		}
		d.BootIndex = -1
		out = append(out, d)
	}
	return out
}

// SourceOf gives the image that a disk of the server is an overlay on; nil: the
// disk has no backing file.
func (s Server) SourceOf(d Disk) *Image {
	switch {
	case !d.HasBackingFile():
		return nil
	case d.Source != nil:
		return d.Source
	case d.Role == RootDisk && d.Image != nil:
		return &s.Image
	}
	return nil
}
