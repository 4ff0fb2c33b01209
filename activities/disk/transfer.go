package disk

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"hash"
	"io"

	"strongroom/compute"
)

// A disk goes from host to host in segments, places of its file. Each is sent with its sha256; at the
// end comes the sha256 over all of these. A segment has parts, and a transfer that was cut off goes on
// after the last part that is durable. The host that receives answers each part that is with a byte,
// and no more than Window parts are sent without: whatever is killed, less than a segment is sent again.
const (
	partBytes    = 2 << 20
	segmentParts = 4

	// Window is how many parts may be on their way, or waiting to become durable.
	Window = segmentParts - 1
)

// Layout is what a host says of a disk's file before it sends it.
type Layout struct {
	Bytes   int64  `json:"bytes"`   // of the file
	Version string `json:"version"` // another one once the file has changed
	Data    []byte `json:"data"`    // a bit for each part, the lowest first: it has data; the others are holes
}

// MaxLayoutJSON bounds a layout as JSON: that of a file of 64 TiB.
const MaxLayoutJSON = 6 << 20

// Transfers reads disks of other hosts.
type Transfers interface {
	// Layout gives what a file is like. Conflict: the guest runs there, or it is no file;
	// Forbidden: the transfer is nobody's; Corrupt: the answer cannot be read.
	Layout(ctx context.Context, from compute.Agent, t compute.Transfer) (Layout, error)
	// Segments streams the file, as Sending.Send says. Its reads fail when nothing comes. Each byte that is
	// written to it says that one more part is durable, or was.
	Segments(ctx context.Context, from compute.Agent, t compute.Transfer, version string, next int64) (io.ReadWriteCloser, error)
	// Image streams the copy of an image that the other host has. Forbidden: the transfer is
	// nobody's; NotFound: it has none. Its reads fail when nothing comes.
	Image(ctx context.Context, from compute.Agent, t compute.Transfer) (io.ReadCloser, error)
}

// parts is how many parts a file has.
func (l Layout) parts() int64 { return (l.Bytes + partBytes - 1) / partBytes }

func (l Layout) hasData(part int64) bool {
	return l.Data[part/8]&(1<<(part%8)) != 0
}

// endsSegment reports whether no part behind one has data of the same segment.
func (l Layout) endsSegment(part int64) bool {
	for part++; part < l.parts() && part%segmentParts != 0; part++ {
		if l.hasData(part) {
			return false
		}
	}
	return true
}

// size is how many bytes a part has: the last one may be shorter.
func (l Layout) size(part int64) int64 {
	return min(partBytes, l.Bytes-part*partBytes)
}

// dataBytes is how much is sent of the file from a part on.
func (l Layout) dataBytes(next int64) (sum int64) {
	for p := next; p < l.parts(); p++ {
		if l.hasData(p) {
			sum += l.size(p)
		}
	}
	return sum
}

// StreamBytes is how long the stream is that Send makes.
func (l Layout) StreamBytes(next int64) int64 {
	digests := int64(1)
	for p := range l.parts() {
		if l.hasData(p) && l.endsSegment(p) {
			digests++
		}
	}
	return l.dataBytes(next) + digests*sha256.Size
}

// digest is what a transfer that goes on must find as it was.
func (l Layout) digest(in incoming) [sha256.Size]byte {
	text, _ := json.Marshal(struct { // of types that have no other outcome
		Layout
		Operation compute.OperationID
		From      compute.HostID
	}{l, in.Operation, in.from.Host})
	return sha256.Sum256(text)
}

// check refuses a layout of more than the file can have.
func (l Layout) check(most int64) error {
	switch {
	case l.Bytes <= 0 || l.Bytes > most:
		return compute.Errorf(compute.Corrupt, "its file has %d bytes, and it may have %d", l.Bytes, most)
	case int64(len(l.Data)) != (l.parts()+7)/8 || len(l.Version) > 200:
		return compute.Errorf(compute.Corrupt, "its layout has %d bytes for %d parts", len(l.Data), l.parts())
	}
	for p := l.parts(); p < int64(len(l.Data))*8; p++ {
		if l.hasData(p) {
			return compute.Errorf(compute.Corrupt, "its layout has data behind its end")
		}
	}
	return nil
}

// mostDiskBytes is how large a disk can be for its guest.
func mostDiskBytes(d compute.Disk) int64 {
	return cmp.Or(d.SizeMB, d.MaxMB, compute.DefaultMaxImageDiskGB<<10) * mib
}

// mostFileBytes is how large the qcow2 file of a disk can become: a 64 KiB cluster costs ten
// bytes of tables beside it, and the header of LUKS and clusters that a QEMU which was killed
// left unused have room.
func mostFileBytes(d compute.Disk) int64 {
	most := mostDiskBytes(d)
	return most + most/512 + 64*mib
}

// total is the sha256 over those of all segments.
type total struct{ hash.Hash }

func newTotal() total { return total{sha256.New()} }

func (t total) add(segment []byte) { t.Write(segment) }
