package image

import (
	"bytes"
	"encoding/binary"

	"strongroom/compute"
)

// HeadBytes holds a qcow2 header with its extensions; they end within the first
// cluster, and the ones that matter come first.
const HeadBytes = 64 << 10

var (
	qcow2Magic = []byte("QFI\xfb")
	luksMagic  = []byte("LUKS\xba\xbe")
)

// The fields of a qcow2 header (docs/interop/qcow2.txt of QEMU), by offset.
const (
	qcow2Version       = 4
	qcow2BackingOffset = 8
	qcow2BackingSize   = 16
	qcow2CryptMethod   = 32
	qcow2HeaderV2      = 72
	qcow2Incompatible  = 72
	qcow2HeaderLength  = 100
	qcow2HeaderV3      = 104

	qcow2BitCorrupt  = 1 << 1
	qcow2BitDataFile = 1 << 2
	qcow2BitsKnown   = 1<<5 - 1
	qcow2ExtDataFile = 0x44415441
	qcow2CryptAES    = 1
)

// CheckHead looks at the data before any program does: a qcow2 may name a
// backing file or a data file, and whoever opens it would read that file of the
// host for its owner. head is the first HeadBytes of the data, or all of it. Invalid:
// the data is not what disk_format says, or it refers to other files.
func CheckHead(img compute.Image, head []byte) error {
	isQcow2, isLUKS := bytes.HasPrefix(head, qcow2Magic), bytes.HasPrefix(head, luksMagic)
	switch {
	case img.DiskFormat == "raw" && isQcow2:
		return compute.Errorf(compute.Invalid, "image %s says raw and its data is qcow2", img.ID)
	case img.DiskFormat == "qcow2" && !isQcow2, img.DiskFormat == "luks" && !isLUKS:
		return compute.Errorf(compute.Invalid, "the data of image %s is not %s", img.ID, img.DiskFormat)
	case img.DiskFormat == "qcow2":
		return checkQcow2(img, head)
	}
	return nil
}

// RefersElsewhere is the refusal of data that refers to another file.
func RefersElsewhere(img compute.Image) error {
	return compute.Errorf(compute.Invalid, "the data of image %s refers to another file, which an image may not", img.ID)
}

func checkQcow2(img compute.Image, head []byte) error {
	odd := compute.Errorf(compute.Invalid, "the qcow2 header of image %s is damaged or of an unknown kind", img.ID)
	if len(head) < qcow2HeaderV3 {
		return odd
	}
	u32 := func(at int) uint32 { return binary.BigEndian.Uint32(head[at:]) }
	u64 := func(at int) uint64 { return binary.BigEndian.Uint64(head[at:]) }
	version := u32(qcow2Version)
	if version != 2 && version != 3 || u32(qcow2CryptMethod) == qcow2CryptAES {
		return odd
	}
	if u64(qcow2BackingOffset) != 0 || u32(qcow2BackingSize) != 0 {
		return RefersElsewhere(img)
	}
	extensions := uint64(qcow2HeaderV2)
	if version == 3 {
		features := u64(qcow2Incompatible)
		if features&qcow2BitDataFile != 0 {
			return RefersElsewhere(img)
		}
		if features&^qcow2BitsKnown != 0 || features&qcow2BitCorrupt != 0 {
			return odd
		}
		extensions = uint64(u32(qcow2HeaderLength))
	}
	for at := extensions; ; {
		if at+8 > uint64(len(head)) {
			return odd
		}
		kind, length := u32(int(at)), uint64(u32(int(at)+4))
		switch kind {
		case 0:
			return nil
		case qcow2ExtDataFile:
			return RefersElsewhere(img)
		}
		at += 8 + (length+7)&^7
	}
}
