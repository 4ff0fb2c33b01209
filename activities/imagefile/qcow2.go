package imagefile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"strongroom/activities/disk/luks"
)

// HeadBytes holds a qcow2 header with its extensions; they end within the first
// cluster, and the ones that matter come first.
const HeadBytes = 64 << 10

// Why an image is refused.
var (
	ErrDamaged   error = refusal("its qcow2 header is damaged or of an unknown kind")
	ErrElsewhere error = refusal("it refers to another file, which an image may not")
	ErrSize      error = refusal("its size or its tables are larger than any host takes")
	// QEMU keeps a valid bitmap in memory for as long as a guest runs from the image.
	ErrBitmaps     error = refusal("it has dirty bitmaps, which an image may not: remove them with qemu-img bitmap --remove")
	ErrHeaders     error = refusal("it has more than one LUKS header")
	ErrCompression error = refusal("it is compressed in a way that hosts do not know")
)

// refusal is a reason that users are told.
type refusal string

func (r refusal) Error() string { return string(r) }

// PublicText is what compute.Errorf shows users of a cause.
func (r refusal) PublicText() string { return string(r) }

var (
	qcow2Magic = []byte("QFI\xfb")
	luksMagic  = []byte("LUKS\xba\xbe")
)

// IsQcow2 reports whether data begins as a qcow2 file.
func IsQcow2(head []byte) bool { return bytes.HasPrefix(head, qcow2Magic) }

// IsLUKS reports whether data begins as a LUKS container.
func IsLUKS(head []byte) bool { return bytes.HasPrefix(head, luksMagic) }

// The fields of a qcow2 header (docs/interop/qcow2.txt of QEMU), by offset.
const (
	qcow2Version        = 4
	qcow2BackingOffset  = 8
	qcow2BackingSize    = 16
	qcow2ClusterBits    = 20
	qcow2Size           = 24
	qcow2CryptMethod    = 32
	qcow2L1Size         = 36
	qcow2L1Offset       = 40
	qcow2RefcountOffset = 48
	qcow2RefcountSize   = 56
	qcow2Snapshots      = 60
	qcow2SnapshotsAt    = 64
	qcow2HeaderV2       = 72
	qcow2Incompatible   = 72
	qcow2Autoclear      = 88
	qcow2RefcountOrder  = 96
	qcow2HeaderLength   = 100
	qcow2HeaderV3       = 104
	qcow2Compression    = 104 // where the header is as long

	qcow2BitCorrupt     = 1 << 1
	qcow2BitDataFile    = 1 << 2
	qcow2BitCompression = 1 << 3 // another one than zlib
	qcow2BitsKnown      = 1<<5 - 1
	qcow2AutoBitmaps    = 1 << 0 // they are valid
	qcow2CryptNone      = 0
	qcow2CryptLUKS      = 2
	qcow2Zlib           = 0
	qcow2Zstd           = 1

	qcow2ExtEnd      = 0
	qcow2ExtDataFile = 0x44415441
	qcow2ExtCrypto   = 0x0537be77
	qcow2ExtBitmaps  = 0x23852875

	leastSnapshot = 40 // bytes of a snapshot's entry
)

// What an image may ask of a host.
const (
	// MostBytes is the largest disk that an image may hold: 64 TiB.
	MostBytes        = 64 << 40
	mostTable        = 32 << 20 // bytes of the first table
	mostRefcounts    = 8 << 20  // bytes of the table of reference counts
	mostSnapshots    = 1000
	leastClusterBits = 9
	mostClusterBits  = 21
)

// qcow2 is what a header says.
type qcow2 struct {
	head   []byte
	crypto int64 // where its LUKS header is, 0: it has none
	room   int64 // of that
}

func (q qcow2) u32(at int) uint32 { return binary.BigEndian.Uint32(q.head[at:]) }
func (q qcow2) u64(at int) uint64 { return binary.BigEndian.Uint64(q.head[at:]) }

// readQcow2 looks at a header: head is the first HeadBytes of a file, or all of it.
func readQcow2(head []byte) (q qcow2, err error) {
	q.head = head
	if !IsQcow2(head) || len(head) < qcow2HeaderV3 {
		return q, ErrDamaged
	}
	version := q.u32(qcow2Version)
	if method := q.u32(qcow2CryptMethod); version != 2 && version != 3 || method != qcow2CryptNone && method != qcow2CryptLUKS {
		return q, ErrDamaged
	}
	if q.u64(qcow2BackingOffset) != 0 || q.u32(qcow2BackingSize) != 0 {
		return q, ErrElsewhere
	}
	extensions := uint64(qcow2HeaderV2)
	if version == 3 {
		features := q.u64(qcow2Incompatible)
		if features&qcow2BitDataFile != 0 {
			return q, ErrElsewhere
		}
		if features&^qcow2BitsKnown != 0 || features&qcow2BitCorrupt != 0 || q.u32(qcow2RefcountOrder) > 6 {
			return q, ErrDamaged
		}
		extensions = uint64(q.u32(qcow2HeaderLength))
		if err := q.compression(); err != nil {
			return q, err
		}
	}
	if err := q.tables(); err != nil {
		return q, err
	}
	return q, q.extensions(extensions)
}

// tables bounds what is read and kept in memory of an image that is opened.
func (q qcow2) tables() error {
	bits := q.u32(qcow2ClusterBits)
	if bits < leastClusterBits || bits > mostClusterBits {
		return ErrDamaged
	}
	switch {
	case q.u64(qcow2Size) > MostBytes,
		q.u32(qcow2L1Size) > mostTable/8,
		uint64(q.u32(qcow2RefcountSize))<<bits > mostRefcounts,
		q.u32(qcow2Snapshots) > mostSnapshots:
		return ErrSize
	}
	return nil
}

// compression sees that the image is compressed as QEMU knows, if it is. What is
// decompressed is a cluster at a time.
func (q qcow2) compression() error {
	method := byte(qcow2Zlib)
	if q.u32(qcow2HeaderLength) > qcow2Compression && len(q.head) > qcow2Compression {
		method = q.head[qcow2Compression]
	}
	if other := q.u64(qcow2Incompatible)&qcow2BitCompression != 0; other != (method == qcow2Zstd) || method > qcow2Zstd {
		return ErrCompression
	}
	return nil
}

// hasBitmaps reports whether QEMU takes the bitmaps of an extension for valid; it passes by
// others.
func (q qcow2) hasBitmaps() bool {
	return q.u32(qcow2Version) == 3 && q.u64(qcow2Autoclear)&qcow2AutoBitmaps != 0
}

// extensions walks the header's extensions, which begin at an offset.
func (q *qcow2) extensions(at uint64) error {
	for {
		if at+8 > uint64(len(q.head)) {
			return ErrDamaged
		}
		kind, length := q.u32(int(at)), uint64(q.u32(int(at)+4))
		switch kind {
		case qcow2ExtEnd:
			if q.u32(qcow2CryptMethod) == qcow2CryptLUKS && q.crypto == 0 {
				return ErrDamaged
			}
			return nil
		case qcow2ExtDataFile:
			return ErrElsewhere
		case qcow2ExtCrypto:
			if q.crypto != 0 { // QEMU would open each
				return ErrHeaders
			}
			if at+24 > uint64(len(q.head)) || length != 16 || q.u32(qcow2CryptMethod) != qcow2CryptLUKS {
				return ErrDamaged
			}
			offset, room := q.u64(int(at)+8), q.u64(int(at)+16)
			if offset == 0 || offset > MostBytes || room > MostBytes {
				return ErrDamaged
			}
			q.crypto, q.room = int64(offset), int64(room)
		case qcow2ExtBitmaps:
			if q.hasBitmaps() {
				return ErrBitmaps
			}
		}
		at += 8 + (length+7)&^7
	}
}

// within refuses tables that are outside of the file, whose last cluster may be cut off.
func (q qcow2) within(size int64) error {
	bits := q.u32(qcow2ClusterBits)
	end := (uint64(size)>>bits + 1) << bits
	for at, bytes := range map[int]uint64{
		qcow2L1Offset:       8 * uint64(q.u32(qcow2L1Size)),
		qcow2RefcountOffset: uint64(q.u32(qcow2RefcountSize)) << bits,
		qcow2SnapshotsAt:    leastSnapshot * uint64(q.u32(qcow2Snapshots)),
	} {
		if bytes == 0 {
			continue
		}
		if offset := q.u64(at); offset > end || bytes > end-offset {
			return ErrDamaged
		}
	}
	if q.crypto > size || q.crypto > 0 && q.room > size-q.crypto {
		return ErrDamaged
	}
	return nil
}

// CheckHead looks at the first HeadBytes of an image's data, or all of it, in a
// format: qcow2, luks; of others nothing is said.
func CheckHead(format string, head []byte) error {
	switch format {
	case "qcow2":
		_, err := readQcow2(head)
		return err
	case "luks":
		return luks.CheckHead(bytes.NewReader(head))
	}
	return nil
}

// Check looks at an image's file in a format, as CheckHead does, and at what may be
// anywhere in it: the LUKS header of an encrypted qcow2.
func Check(format string, file io.ReaderAt, size int64) error {
	switch format {
	case "qcow2":
		head := make([]byte, min(HeadBytes, size))
		if _, err := file.ReadAt(head, 0); err != nil {
			return fmt.Errorf("read its header: %w", err)
		}
		q, err := readQcow2(head)
		if err == nil {
			err = q.within(size)
		}
		if err != nil || q.crypto == 0 {
			return err
		}
		return luks.Check(file, q.crypto, q.room)
	case "luks":
		return luks.Check(file, 0, size)
	}
	return nil
}
