package object

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"

	"strongroom/compute"
)

// Open implements Store.
func (s *Segmented) Open(ctx context.Context, cred compute.Credential, name string, offset int64) (io.ReadCloser, error) {
	m, err := s.Get(ctx, cred, name)
	if err != nil {
		return nil, err
	}
	r := &reader{ctx: ctx, blobs: s.Blobs, cred: cred, name: name, manifest: m}
	if offset == 0 {
		r.whole = sha256.New()
		return r, nil
	}
	at := int64(0)
	for ; r.next < len(m.Segments) && at < offset; r.next++ {
		at += m.Segments[r.next].SizeBytes
	}
	if at != offset {
		return nil, compute.Errorf(compute.Invalid, "no segment of object %s begins at byte %d", name, offset)
	}
	return r, nil
}

// reader is an object's data, segment by segment.
type reader struct {
	ctx      context.Context
	blobs    Blobs
	cred     compute.Credential
	name     string
	manifest Manifest

	next    int // number of the segment to open
	current io.ReadCloser
	left    int64     // bytes of the current segment
	sum     hash.Hash // of the current segment
	whole   hash.Hash // nil: not read from the start
}

func (r *reader) Read(p []byte) (int, error) {
	for r.current == nil {
		if r.next == len(r.manifest.Segments) {
			return 0, r.finish()
		}
		segment := r.manifest.Segments[r.next]
		blob, err := r.blobs.Open(r.ctx, r.cred, segment.blob(r.name, r.next))
		switch {
		case compute.Is(err, compute.NotFound):
			return 0, compute.Errorf(compute.Corrupt, "segment %d of object %s is missing", r.next, r.name)
		case err != nil:
			return 0, err
		}
		r.current, r.left, r.sum = blob, segment.SizeBytes, sha256.New()
		r.next++
	}
	n, err := r.current.Read(p[:min(int64(len(p)), r.left+1)]) // one byte more shows that there is more
	r.sum.Write(p[:n])
	if r.whole != nil {
		r.whole.Write(p[:n])
	}
	r.left -= int64(n)
	switch {
	case r.left < 0:
		return n, r.corrupt()
	case errors.Is(err, io.EOF) && r.left > 0:
		return n, compute.Errorf(compute.Unavailable, "segment %d of object %s broke off: %w", r.next-1, r.name, io.ErrUnexpectedEOF)
	case errors.Is(err, io.EOF):
		return n, r.close()
	case err != nil:
		return n, compute.Errorf(compute.Unavailable, "read segment %d of object %s: %w", r.next-1, r.name, err)
	}
	return n, nil
}

// close ends the current segment, if it is what the manifest says.
func (r *reader) close() error {
	if hex.EncodeToString(r.sum.Sum(nil)) != r.manifest.Segments[r.next-1].SHA256 {
		return r.corrupt()
	}
	err := r.current.Close()
	r.current = nil
	return err
}

func (r *reader) corrupt() error {
	return compute.Errorf(compute.Corrupt, "segment %d of object %s does not match its sha256", r.next-1, r.name)
}

// finish compares the whole.
func (r *reader) finish() error {
	if r.whole != nil && hex.EncodeToString(r.whole.Sum(nil)) != r.manifest.SHA256 {
		return compute.Errorf(compute.Corrupt, "the data of object %s does not match its sha256", r.name)
	}
	return io.EOF
}

func (r *reader) Close() error {
	if r.current == nil {
		return nil
	}
	return r.current.Close()
}
