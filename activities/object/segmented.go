package object

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"strongroom/compute"
)

// Segmented is a Store over an adapter's blobs.
type Segmented struct {
	Blobs Blobs
	Now   func() time.Time // time.Now if nil
}

var _ Store = (*Segmented)(nil)

func (s Segment) blob(name string, number int) string {
	return fmt.Sprintf("%s%08d-%s", segmentsOf(name), number, s.SHA256)
}

const (
	// maxManifest bounds a manifest that is read, maxSegments what one has.
	maxManifest = 16 << 20
	maxSegments = 100_000
)

// Put implements Store.
func (s *Segmented) Put(ctx context.Context, in PutInput, data io.ReaderAt) (PutResult, error) {
	if err := checkName(in.Credential, in.Name); err != nil {
		return PutResult{}, err
	}
	if in.SegmentBytes == 0 {
		in.SegmentBytes = SegmentBytes
	}
	if in.Size < 0 || in.SegmentBytes < 1 || in.Size/in.SegmentBytes >= maxSegments {
		return PutResult{}, compute.Errorf(compute.Invalid, "object %s cannot have %d bytes in segments of %d", in.Name, in.Size, in.SegmentBytes)
	}
	have, err := s.Get(ctx, in.Credential, in.Name)
	switch {
	case err == nil:
		return PutResult{Manifest: have}, same(ctx, in, have, data)
	case !compute.Is(err, compute.NotFound):
		return PutResult{}, err
	}
	return s.store(ctx, in, data)
}

// same gives Conflict unless the data is what the manifest says.
func same(ctx context.Context, in PutInput, have Manifest, data io.ReaderAt) error {
	sum := sha256.New()
	if _, err := io.Copy(sum, steady{ctx, io.NewSectionReader(data, 0, in.Size)}); err != nil {
		return unreadable(in.Name, err)
	}
	if have.SizeBytes != in.Size || hex.EncodeToString(sum.Sum(nil)) != have.SHA256 {
		return compute.Errorf(compute.Conflict, "object %s exists with other data", in.Name)
	}
	return nil
}

func unreadable(name string, err error) error {
	return compute.Errorf(compute.Unavailable, "read the data of object %s: %w", name, err)
}

func (s *Segmented) store(ctx context.Context, in PutInput, data io.ReaderAt) (PutResult, error) {
	r := PutResult{Manifest: Manifest{SizeBytes: in.Size}}
	whole := sha256.New()
	for at, number := int64(0), 0; at < in.Size; number++ {
		part := io.NewSectionReader(data, at, min(in.SegmentBytes, in.Size-at))
		sum := sha256.New()
		n, err := io.Copy(io.MultiWriter(sum, whole), steady{ctx, part})
		if err != nil || n < part.Size() {
			return r, unreadable(in.Name, cmpError(err, io.ErrUnexpectedEOF))
		}
		segment := Segment{SizeBytes: n, SHA256: hex.EncodeToString(sum.Sum(nil))}
		sent, err := s.ensure(ctx, in, segment, number, part)
		if err != nil {
			return r, err
		}
		if sent {
			r.SentBytes += n
		}
		at += n
		r.Manifest.Segments = append(r.Manifest.Segments, segment)
		if in.Progress != nil {
			in.Progress(at)
		}
	}
	r.Manifest.SHA256, r.Manifest.CreatedAt = hex.EncodeToString(whole.Sum(nil)), s.now()
	text, err := json.Marshal(r.Manifest)
	if err != nil {
		return r, compute.Errorf(compute.Invalid, "write the manifest of object %s: %w", in.Name, err)
	}
	if err := s.Blobs.Put(ctx, in.Credential, in.Name, bytes.NewReader(text)); err != nil {
		return r, err
	}
	return r, s.clear(ctx, in.Credential, in.Name, r.Manifest)
}

func cmpError(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

// ensure stores a segment unless it is there: its name says its content.
func (s *Segmented) ensure(ctx context.Context, in PutInput, segment Segment, number int, part io.ReadSeeker) (sent bool, err error) {
	name := segment.blob(in.Name, number)
	size, err := s.Blobs.Size(ctx, in.Credential, name)
	if err == nil && size == segment.SizeBytes {
		return false, nil
	}
	if err != nil && !compute.Is(err, compute.NotFound) {
		return false, err
	}
	if _, err := part.Seek(0, io.SeekStart); err != nil {
		return false, unreadable(in.Name, err)
	}
	return true, s.Blobs.Put(ctx, in.Credential, name, part)
}

// clear removes the segments that the manifest does not name: an earlier attempt
// had other data.
func (s *Segmented) clear(ctx context.Context, cred compute.Credential, name string, keep Manifest) error {
	names := make(map[string]bool, len(keep.Segments))
	for i, segment := range keep.Segments {
		names[segment.blob(name, i)] = true
	}
	for after := ""; ; {
		found, err := s.Blobs.List(ctx, cred, segmentsOf(name), after, listedAtOnce)
		if err != nil {
			return err
		}
		for _, blob := range found {
			after = blob
			if names[blob] {
				continue
			}
			if err := s.Blobs.Delete(ctx, cred, blob); err != nil {
				return err
			}
		}
		if len(found) < listedAtOnce {
			return nil
		}
	}
}

func (s *Segmented) now() time.Time {
	if s.Now == nil {
		return time.Now().UTC().Truncate(time.Second)
	}
	return s.Now().UTC()
}

// Check implements Store.
func (s *Segmented) Check(ctx context.Context, cred compute.Credential) error {
	if cred.ProjectID == "" {
		return compute.Errorf(compute.Forbidden, "an object is used with a credential of the project that owns it")
	}
	if blobs, ok := s.Blobs.(Checker); ok {
		return blobs.Check(ctx, cred)
	}
	_, err := s.Blobs.List(ctx, cred, "check.", "", 1) // which cannot be there
	return err
}

// Get implements Store.
func (s *Segmented) Get(ctx context.Context, cred compute.Credential, name string) (Manifest, error) {
	if err := checkName(cred, name); err != nil {
		return Manifest{}, err
	}
	blob, err := s.Blobs.Open(ctx, cred, name)
	if err != nil {
		return Manifest{}, err
	}
	defer blob.Close()
	text, err := io.ReadAll(io.LimitReader(blob, maxManifest))
	if err != nil {
		return Manifest{}, compute.Errorf(compute.Unavailable, "read the manifest of object %s: %w", name, err)
	}
	var m Manifest
	if err := json.Unmarshal(text, &m); err != nil || m.SHA256 == "" {
		return Manifest{}, compute.Errorf(compute.Corrupt, "the manifest of object %s is damaged", name)
	}
	return m, nil
}

// Delete implements Store. The manifest goes first: what is left then is no object.
// The segments are taken from the manifest too, for a store's list may lag.
func (s *Segmented) Delete(ctx context.Context, cred compute.Credential, name string) error {
	m, err := s.Get(ctx, cred, name)
	if err != nil && !compute.Is(err, compute.NotFound) && !compute.Is(err, compute.Corrupt) {
		return err
	}
	if err := s.Blobs.Delete(ctx, cred, name); err != nil {
		return err
	}
	for i, segment := range m.Segments {
		if err := s.Blobs.Delete(ctx, cred, segment.blob(name, i)); err != nil {
			return err
		}
	}
	return s.clear(ctx, cred, name, Manifest{})
}

// steady ends reading with its context.
type steady struct {
	ctx  context.Context
	from io.Reader
}

func (s steady) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.from.Read(p)
}
