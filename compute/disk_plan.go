package compute

import (
	"fmt"
)

// ephemeralFileSystem is what a guest is meant to make on an ephemeral disk: what
// Nova makes there for guests of unknown kind.
const ephemeralFileSystem = "ext4"

const bytesPerMB = 1 << 20

// DefaultDiskFormat is the format of encrypted disks where neither flavor nor image asks
// for one, on a host whose operator says nothing else (EE-03).
const DefaultDiskFormat = FormatLUKS

// PlanDisks gives the local disks of a new server: root, then ephemeral and swap
// where the flavor has them, in the order of their device names. Every one is
// encrypted or none (EE-01, EE-06). Ids are derived from the operation. A flavor
// with no root size takes the image's. A format that nobody asks for is left open, until
// a host has the server: see Server.InFormat. What opens the file under
// the root disk of an encrypted image is a copy of the image's secret, which the
// operation makes: BackingSecret is its id, never the image's own (EE-11).
func PlanDisks(op OperationID, f Flavor, img Image, enc Encryption) []Disk {
	image := img.ID
	root := Disk{Role: RootDisk, SizeMB: int64(f.RootGB) * 1024, BootIndex: 0, Image: &image}
	if root.SizeMB == 0 {
		root.SizeMB = (imageBytes(img) + bytesPerMB - 1) / bytesPerMB
	}
	disks := []Disk{root}
	if f.EphemeralGB > 0 {
		disks = append(disks, Disk{Role: EphemeralDisk, SizeMB: int64(f.EphemeralGB) * 1024, BootIndex: -1, GuestFormat: ephemeralFileSystem})
	}
	if f.SwapMB > 0 {
		disks = append(disks, Disk{Role: SwapDisk, SizeMB: int64(f.SwapMB), BootIndex: -1, GuestFormat: "swap"})
	}
	for i := range disks {
		d := &disks[i]
		d.ID = DiskID{op.Derive("disk/" + diskLabel(*d))}
		d.Bus = DiskBus(img)
		d.DeviceName = DeviceName(d.Bus, i)
		if enc.Enabled {
			d.Encrypted, d.Format = true, enc.Format
		}
	}
	return disks
}

// DeviceName is the name of the nth disk of a machine, from 0 on, on a bus.
func DeviceName(bus string, n int) string {
	prefix := "/dev/sd"
	if bus == BusVirtio {
		prefix = "/dev/vd"
	}
	return prefix + string(rune('a'+n))
}

// Label names the disk within its server: root, ephemeral0, swap.
func (d Disk) Label() string {
	if d.Role == EphemeralDisk {
		return fmt.Sprintf("%s%d", d.Role, d.Index)
	}
	return string(d.Role)
}

func diskLabel(d Disk) string { return d.Label() }

// imageBytes is the size that a guest sees of an image. That of an encrypted one
// is what it says: its file has a LUKS header beside.
func imageBytes(img Image) int64 {
	if img.IsEncrypted() {
		if bytes, err := img.decryptedBytes(); err == nil && bytes > 0 {
			return bytes
		}
	}
	return max(img.SizeBytes, img.VirtualBytes)
}

// CheckImageFits reports whether a flavor is large enough for an image: Invalid
// if not, with the API's text. CheckImageSize is for a flavor without a root size.
func CheckImageFits(f Flavor, img Image) error {
	if f.MemoryMB < img.MinRAMMB {
		return Errorf(Invalid, "Flavor's memory is too small for requested image.")
	}
	if img.IsEncrypted() {
		if _, err := img.decryptedBytes(); err != nil {
			return err
		}
	}
	if f.RootGB == 0 {
		return nil
	}
	return checkDisk(int64(f.RootGB)<<30, img)
}

// checkDisk reports whether a disk of so many bytes holds an image.
func checkDisk(disk int64, img Image) error {
	if size := imageBytes(img); size > disk {
		return Errorf(Invalid, "Flavor's disk is too small for requested image. Flavor disk is %d bytes, image is %d bytes.", disk, size)
	}
	if img.MinDiskGB > int(disk>>30) {
		return Errorf(Invalid, "Flavor's disk is smaller than the minimum size specified in image metadata. "+
			"Flavor disk is %d bytes, minimum size is %d bytes.", disk, int64(min(img.MinDiskGB, 1<<32))<<30)
	}
	return nil
}

// DefaultMaxImageDiskGB is how large a disk may be that takes its size from an image,
// where the operator says nothing.
const DefaultMaxImageDiskGB = 1024

// CheckImageSize bounds a root disk that takes its size from its image, with the text
// of CheckImageFits: a flavor without a root size takes no image that needs more than
// maxGB.
func CheckImageSize(f Flavor, img Image, maxGB int) error {
	if f.RootGB > 0 {
		return nil
	}
	return checkDisk(int64(maxGB)<<30, img)
}

// MaxRescueGB is how large a rescue disk of a server may be: as its root disk, or as
// any disk that takes its size from an image.
func MaxRescueGB(f Flavor, maxGB int) int { return max(f.RootGB, maxGB) }
