// Package object keeps large data in an object store: the state of a vTPM, later
// disks. An object is stored in segments and has a manifest, which is written last:
// there is an object when there is a manifest, and a transfer that broke goes on
// with the first segment that is missing.
//
// Store is the port; each adapter lives in a folder of its own, keeps flat blobs
// and passes the suite in objecttest.
package object

import (
	"context"
	"errors"
	"io"
	"regexp"
	"time"

	"strongroom/compute"
)

// SegmentBytes is the length of a segment where none is asked for.
const SegmentBytes = 64 << 20

// Store is an object store. Objects belong to the credential's project; another
// project's credential gets NotFound for them, and one without a project Forbidden.
// No error text carries data. Two writers of one name at once are the caller's to
// prevent; the rest may be called at once.
type Store interface {
	// Check reports whether the credential may store something, without storing it. Forbidden:
	// it may not; NotFound: the project has no store; Conflict: there is no room left;
	// Unavailable: there is no store, or it does not answer in time.
	Check(ctx context.Context, cred compute.Credential) error
	// Put ensures that the object has the data. An object of the same data stays as
	// it is; Conflict: there is one of other data. Segments that an earlier attempt
	// stored are not sent again. Invalid: the name or a size makes no sense.
	Put(ctx context.Context, in PutInput, data io.ReaderAt) (PutResult, error)
	// Get gives the manifest. NotFound: there is no such object, or it is not whole.
	Get(ctx context.Context, cred compute.Credential, name string) (Manifest, error)
	// Open streams the data from an offset on, which is 0 or where a segment begins.
	// Each segment's sha256 is checked, and from 0 on that of the whole: the Read at
	// the end of what does not match gives Corrupt.
	Open(ctx context.Context, cred compute.Credential, name string, offset int64) (io.ReadCloser, error)
	// Delete ensures that neither the object nor a segment of it is left.
	Delete(ctx context.Context, cred compute.Credential, name string) error
	// List gives a part of the names of what the project has: objects, and what a broken
	// Put left, whose Whole is false. One that is there from the first part to the last is
	// in one of them, or in several, whatever comes and goes meanwhile. A marker outlives
	// the process.
	List(ctx context.Context, cred compute.Credential, in ListInput) (ListResult, error)
}

// PutInput says what to store.
type PutInput struct {
	Credential   compute.Credential
	Name         string // lower case letters, digits, and /_- within; at most 100 bytes
	Size         int64  // of the data, in bytes
	SegmentBytes int64  // 0: SegmentBytes
	// Progress is called with the number of bytes that are stored for sure; nil: nobody asks.
	Progress func(done int64)
}

// PutResult is what was stored and how much of it was sent now.
type PutResult struct {
	Manifest  Manifest
	SentBytes int64
}

// Manifest describes a whole object.
type Manifest struct {
	SizeBytes int64     `json:"size"`
	SHA256    string    `json:"sha256"` // hex, of the whole
	CreatedAt time.Time `json:"created_at"`
	Segments  []Segment `json:"segments"`
}

// Segment is a part of an object's data; its blob bears its number and sha256.
type Segment struct {
	SizeBytes int64  `json:"size"`
	SHA256    string `json:"sha256"`
}

// ListInput asks for a part of a list.
type ListInput struct {
	Marker string // "": from the beginning; else ListResult.Next of the part before
	Limit  int    // how many at most; the store may give fewer. 0: as many as it likes
}

// ListResult is a part of a list.
type ListResult struct {
	Items []Item
	Next  string // "": that is all
}

// Item is a name in a List.
type Item struct {
	Name  string
	Whole bool
}

// Blobs is what an adapter keeps: whole pieces of data under flat names, per
// project of the credential. Names are those of PutInput with what Segmented adds.
type Blobs interface {
	// Put stores a blob: all of it under the name, or what was there before. It reads
	// data again as often as it likes, unless that is a Stream.
	Put(ctx context.Context, cred compute.Credential, name string, data io.ReadSeeker) error
	// Size gives a blob's length, or NotFound.
	Size(ctx context.Context, cred compute.Credential, name string) (int64, error)
	// Open reads a blob, or gives NotFound.
	Open(ctx context.Context, cred compute.Credential, name string) (io.ReadCloser, error)
	// Delete ensures that there is none of the name.
	Delete(ctx context.Context, cred compute.Credential, name string) error
	// List gives names that begin with prefix and come after another name, in the order
	// of their bytes: the first of them, at most limit.
	List(ctx context.Context, cred compute.Credential, prefix, after string, limit int) ([]string, error)
}

// Checker are Blobs that tell by themselves what Store.Check asks: of others it is that
// names can be listed.
type Checker interface {
	Check(ctx context.Context, cred compute.Credential) error
}

// Stream is data for Blobs.Put that can be read once. It seeks to its beginning while
// nothing was read; afterwards that is an error, so that nobody stores a rest as the whole.
type Stream struct {
	io.Reader
	begun bool
}

func (s *Stream) Read(p []byte) (int, error) {
	s.begun = true
	return s.Reader.Read(p)
}

// Seek implements io.Seeker.
func (s *Stream) Seek(offset int64, whence int) (int64, error) {
	if s.begun || offset != 0 || whence != io.SeekStart {
		return 0, errors.New("a stream is read once")
	}
	return 0, nil
}

var goodName = regexp.MustCompile(`^[a-z0-9][a-z0-9/_-]{0,99}$`)

func checkName(cred compute.Credential, name string) error {
	if cred.ProjectID == "" {
		return compute.Errorf(compute.Forbidden, "an object is used with a credential of the project that owns it")
	}
	if !goodName.MatchString(name) {
		return compute.Errorf(compute.Invalid, "%q cannot be the name of an object", name)
	}
	return nil
}
