package disk

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"hash"
	"io"
	"math/bits"

	"strongroom/compute"
)

// A disk goes from host to host in segments, places of its file. Each is sent with its sha256,
// and counts once it was compared and is durable; at the end comes the sha256 over all of
// these. What a transfer that was cut off sends again is the segment that was on its way to the
// file system, those on their way to the host, and what the kernels hold between: so they are
// much smaller than the 16 MiB that may be sent twice.
const segmentBytes = 2 << 20

// Layout is what a host says of a disk's file before it sends it.
type Layout struct {
	Bytes   int64  `json:"bytes"`   // of the file
	Version string `json:"version"` // another one once the file has changed
	Data    []byte `json:"data"`    // a bit for each segment, the lowest first: it has data; the others are holes
}

// MaxLayoutJSON bounds a layout as JSON: that of a file of 64 TiB.
const MaxLayoutJSON = 6 << 20

// Transfers reads disks of other hosts.
type Transfers interface {
	// Layout gives what a file is like. Conflict: the guest runs there, or it is no file;
	// Forbidden: the transfer is nobody's; Corrupt: the answer cannot be read.
	Layout(ctx context.Context, from compute.Agent, t compute.Transfer) (Layout, error)
	// Segments streams the file, as Sending.Send says. Its reads fail when nothing comes.
	Segments(ctx context.Context, from compute.Agent, t compute.Transfer, version string, next int64) (io.ReadCloser, error)
	// Image streams the copy of an image that the other host has. Forbidden: the transfer is
	// nobody's; NotFound: it has none. Its reads fail when nothing comes.
	Image(ctx context.Context, from compute.Agent, t compute.Transfer) (io.ReadCloser, error)
}

// segments is how many segments a file has.
func (l Layout) segments() int64 { return (l.Bytes + segmentBytes - 1) / segmentBytes }

func (l Layout) hasData(segment int64) bool {
	return l.Data[segment/8]&(1<<(segment%8)) != 0
}

// size is how many bytes a segment has: the last one may be shorter.
func (l Layout) size(segment int64) int64 {
	return min(segmentBytes, l.Bytes-segment*segmentBytes)
}

// dataBytes is how much is sent of the file from a segment on.
func (l Layout) dataBytes(next int64) (sum int64) {
	for s := next; s < l.segments(); s++ {
		if l.hasData(s) {
			sum += l.size(s)
		}
	}
	return sum
}

// StreamBytes is how long the stream is that Send makes.
func (l Layout) StreamBytes(next int64) int64 {
	digests := int64(1)
	for _, b := range l.Data {
		digests += int64(bits.OnesCount8(b))
	}
	return l.dataBytes(next) + digests*sha256.Size
}

// digest is what a transfer that goes on must find as it was.
func (l Layout) digest(in ReceiveInput) [sha256.Size]byte {
	text, _ := json.Marshal(struct { // of types that have no other outcome
		Layout
		Operation compute.OperationID
		From      compute.HostID
	}{l, in.Operation, in.From.Host})
	return sha256.Sum256(text)
}

// check refuses a layout of more than the disk can have.
func (l Layout) check(d compute.Disk) error {
	switch {
	case l.Bytes <= 0 || l.Bytes > mostFileBytes(d):
		return compute.Errorf(compute.Corrupt, "its file has %d bytes, and it may have %d", l.Bytes, mostFileBytes(d))
	case int64(len(l.Data)) != (l.segments()+7)/8 || len(l.Version) > 200:
		return compute.Errorf(compute.Corrupt, "its layout has %d bytes for %d segments", len(l.Data), l.segments())
	}
	for s := l.segments(); s < int64(len(l.Data))*8; s++ {
		if l.hasData(s) {
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

func (t total) add(segment [sha256.Size]byte) { t.Write(segment[:]) }
