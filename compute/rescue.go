package compute

import "strings"

// RescueArguments are the arguments of a rescue.
type RescueArguments struct {
	Image Image `json:"image"` // what the server boots from meanwhile, as its record says now
}

// PlanRescue gives the disk that a server boots from while it is rescued: an
// overlay on the image, and as large. It is encrypted if the image is, and only
// then, whatever the server's own disks are; the key is the image's, and no other
// is made (EE-26). Invalid: no host can boot from the image.
func PlanRescue(op OperationID, img Image) (Disk, error) {
	bytes, err := guestBytes(img)
	if err != nil {
		return Disk{}, err
	}
	if _, err := img.BackingFormat(); err != nil {
		return Disk{}, err
	}
	d := Disk{
		ID: DiskID{op.Derive("disk/" + string(RescueDisk))}, Role: RescueDisk, DeviceName: devicePrefix + "a", Bus: "virtio",
		SizeMB: (bytes + bytesPerMB - 1) / bytesPerMB, Image: &img.ID, Source: &img,
	}
	enc, err := img.Encryption()
	if err != nil || enc == nil {
		return d, err
	}
	d.Encrypted, d.Format, d.Secret, d.BackingSecret = true, FormatLUKS, &enc.Secret, &enc.Secret
	return d, nil
}

// guestBytes is the size of the disk in an image, 0 where only its bytes tell.
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

// Unrescued gives the server without its rescue disk.
func (s Server) Unrescued() Server {
	var own []Disk
	for _, d := range s.Disks {
		if d.Role != RescueDisk {
			own = append(own, d)
		}
	}
	s.Disks = own
	return s
}

// RescueThings picks from a server's things its rescue disk and the use that this
// makes of a host's copy of an encrypted image.
func (s Server) RescueThings(things []Thing) []Thing {
	file := Disk{Role: RescueDisk}.Name()
	var out []Thing
	for _, t := range things {
		if t.Kind == ThingDiskFile && t.Name == s.ID.String()+"/"+file ||
			t.Kind == ThingCachedImage && strings.HasSuffix(t.Name, "/"+s.ID.String()+"."+file) {
			out = append(out, t)
		}
	}
	return out
}

// RunningState is the vm_state of the server when its machine runs.
func (s Server) RunningState() VMState {
	if _, rescued := s.RescueDisk(); rescued {
		return VMRescued
	}
	return VMActive
}

const devicePrefix = "/dev/vd"

// Attached gives the server's disks as its machine has them. A rescue disk is the
// first one and what the machine boots from; each of the others has the next
// device name meanwhile, and nothing boots from it.
func (s Server) Attached() []Disk {
	rescue, rescued := s.RescueDisk()
	if !rescued {
		return s.Disks
	}
	out := []Disk{rescue}
	for _, d := range s.Unrescued().Disks {
		last := len(d.DeviceName) - 1
		d.DeviceName = d.DeviceName[:last] + string(d.DeviceName[last]+1)
		d.BootIndex = -1
		out = append(out, d)
	}
	return out
}

// SourceOf gives the image that a disk of the server is an overlay on; nil: the
// disk leans on nothing.
func (s Server) SourceOf(d Disk) *Image {
	switch {
	case d.Source != nil:
		return d.Source
	case d.Role == RootDisk && d.Image != nil && !d.OnDevice():
		return &s.Image
	}
	return nil
}
