package disk

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sync/errgroup"

	"strongroom/compute"
)

// received is a file that is filled with what another host sends, and the note beside it of how
// far that is.
type received struct {
	layout Layout
	path   string
	file   *os.File
	note   *os.File
	digest string // of what is received, so that nothing else goes on
	next   int64  // the parts before it are durable
}

func notePath(path string) string { return hidden(path, noteSuffix) }

func removeNote(path string) error {
	if err := os.Remove(notePath(path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// openReceived goes on with what is there of the same transfer, or begins anew. NoHost: the
// file system has no room for what is to come.
func openReceived(path string, layout Layout, in incoming) (*received, error) {
	sum := layout.digest(in)
	r := &received{layout: layout, path: path, digest: hex.EncodeToString(sum[:])}
	goesOn := r.reopen() == nil
	err := room(filepath.Dir(path), layout.dataBytes(r.next))
	if err == nil && !goesOn {
		err = r.begin()
	}
	if err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

var errNothingReceived = errors.New("nothing was received yet")

// noteFormat has the same length for every number: it is written over itself.
const noteFormat = "%s %016d\n"

// reopen fails where nothing of the same transfer is there.
func (r *received) reopen() error {
	text, err := os.ReadFile(notePath(r.path))
	if err != nil {
		return err
	}
	var digest string
	var next int64
	if _, err := fmt.Sscanf(string(text), noteFormat, &digest, &next); err != nil {
		return err
	}
	if digest != r.digest || next < 0 || next > r.layout.parts() {
		return errNothingReceived
	}
	if err := r.open(os.O_RDWR); err != nil {
		return err
	}
	if info, err := r.file.Stat(); err != nil || info.Size() != r.layout.Bytes {
		return errNothingReceived
	}
	r.next = next
	// What was written and is not durable goes: holes are not written.
	return errors.Join(r.file.Truncate(min(next*partBytes, r.layout.Bytes)), r.file.Truncate(r.layout.Bytes))
}

// begin makes the file and its note; what is there of another transfer goes.
func (r *received) begin() error {
	r.close()
	if err := r.forget(); err != nil {
		return err
	}
	r.next = 0
	if err := r.open(os.O_CREATE | os.O_TRUNC | os.O_RDWR); err != nil {
		return err
	}
	return errors.Join(r.file.Truncate(r.layout.Bytes), r.reach(0), syncDir(filepath.Dir(r.path)))
}

func (r *received) open(how int) (err error) {
	if r.file, err = os.OpenFile(hidden(r.path, ".new"), how|syscall.O_NOFOLLOW, 0o600); err != nil {
		return err
	}
	r.note, err = os.OpenFile(notePath(r.path), how&^os.O_TRUNC|syscall.O_NOFOLLOW, 0o600)
	return err
}

// close closes the files; of those that are closed already it knows nothing.
func (r *received) close() {
	for _, f := range []*os.File{r.file, r.note} {
		if f != nil {
			f.Close()
		}
	}
}

// forget has the next attempt begin anew.
func (r *received) forget() error {
	if err := removeNote(r.path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(r.path))
}

// reach makes durable what was written, and then notes it. The note itself may be lost with the
// host's power, which costs no more than to send again.
func (r *received) reach(next int64) error {
	if err := syscall.Fdatasync(int(r.file.Fd())); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(io.NewOffsetWriter(r.note, 0), noteFormat, r.digest, next); err != nil {
		return err
	}
	r.next = next
	return nil
}

// part is one that was received.
type part struct {
	number int64
	data   []byte
}

// fill receives what the file has not got yet.
func (a *Activities) fill(ctx context.Context, r *received, in incoming) error {
	from, err := a.Hosts.Segments(ctx, in.from, in.Transfer, r.layout.Version, r.next)
	if err != nil {
		return err
	}
	defer from.Close()
	work, ctx := errgroup.WithContext(ctx)
	stop := context.AfterFunc(ctx, func() { from.Close() }) // a Read that hangs ends with it
	defer stop()
	// One part is received while the one before it becomes durable.
	comes, free := make(chan part), make(chan []byte, 2)
	free <- make([]byte, partBytes)
	free <- make([]byte, partBytes)
	work.Go(func() error {
		defer close(comes)
		return r.read(ctx, from, comes, free)
	})
	work.Go(func() error {
		for p := range comes {
			if err := r.write(p); err != nil {
				return err
			}
			got(from)
			free <- p.data[:partBytes]
		}
		return nil
	})
	if err := work.Wait(); err != nil {
		return err
	}
	return r.reach(r.layout.parts())
}

// got tells the other host that a part is durable. One that cannot be told sends no more, and a Read says why.
func got(from io.Writer) { _, _ = from.Write([]byte{1}) }

// read receives the stream of Sending.Send and compares all of it.
func (r *received) read(ctx context.Context, from io.ReadWriter, comes chan<- part, free <-chan []byte) error {
	p := &progress{ctx: ctx, Progress: Progress{Phase: "receive", Total: r.layout.dataBytes(0)}}
	all, segment, next := newTotal(), sha256.New(), r.next
	own := make([]byte, partBytes)
	for number := range r.layout.parts() {
		if !r.layout.hasData(number) {
			continue
		}
		data := own
		if number >= next {
			select {
			case data = <-free:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		data = data[:r.layout.size(number)]
		if err := r.readOne(from, p, number >= next, number, data); err != nil {
			return err
		}
		segment.Write(data)
		if number >= next {
			select {
			case comes <- part{number, data}:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if r.layout.endsSegment(number) {
			sum := segment.Sum(nil)
			segment.Reset()
			all.add(sum)
			if err := r.compare(from, sum, number-number%segmentParts, next); err != nil {
				return err
			}
		}
	}
	var end [sha256.Size]byte
	if err := receiveFull(from, end[:]); err != nil {
		return err
	}
	if !bytes.Equal(end[:], all.Sum(nil)) {
		return compute.Errorf(compute.Corrupt, "its sha256 is another one than the other host says")
	}
	return nil
}

// readOne gets a part, of the other host or, where it is there, of the file.
func (r *received) readOne(from io.ReadWriter, p *progress, comes bool, number int64, data []byte) error {
	if comes {
		return receiveFull(from, data, p)
	}
	if _, err := r.file.ReadAt(data, number*partBytes); err != nil {
		return err
	}
	p.reach(p.Done + int64(len(data)))
	got(from)
	return nil
}

// compare compares the sha256 of a segment, whose parts before next were received by an attempt before,
// with what the other host says. What is noted of another one is forgotten.
func (r *received) compare(from io.Reader, sum []byte, first, next int64) error {
	var said [sha256.Size]byte
	if err := receiveFull(from, said[:]); err != nil || bytes.Equal(sum, said[:]) {
		return err
	}
	err := compute.Errorf(compute.Corrupt, "the sha256 of what came at byte %d is another one than the other host says", first*partBytes)
	if first < next { // the host lost its power, or the other one has another file
		err = compute.Errorf(compute.Unavailable, "what was received of it before is not what the other host has: it begins anew")
	}
	return errors.Join(err, r.forget())
}

// receiveFull fills data. A stream that ends is Unavailable, unless it says why: it goes on later.
func receiveFull(from io.Reader, data []byte, tell ...*progress) error {
	for len(data) > 0 {
		n, err := from.Read(data)
		data = data[n:]
		for _, p := range tell {
			p.reach(p.Done + int64(n))
		}
		if err != nil && len(data) > 0 {
			return compute.Errorf(cmp.Or(compute.KindOf(err), compute.Unavailable), "the other host broke off: %w", err)
		}
	}
	return nil
}

// blockBytes is what stays a hole where it has zeros alone.
const blockBytes = 64 << 10

var zeros [blockBytes]byte

// write writes a part, but for its empty blocks, and makes it durable.
func (r *received) write(p part) error {
	for at := 0; at < len(p.data); at += blockBytes {
		block := p.data[at:min(at+blockBytes, len(p.data))]
		if bytes.Equal(block, zeros[:len(block)]) {
			continue
		}
		if _, err := r.file.WriteAt(block, p.number*partBytes+int64(at)); err != nil {
			return err
		}
	}
	return r.reach(p.number + 1)
}
