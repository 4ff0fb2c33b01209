// Package objecttest is the suite that every adapter of object.Store passes.
package objecttest

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"runtime"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/object"
	"strongroom/compute"
)

// Harness is an adapter ready to be tried.
type Harness struct {
	Store object.Store
	Again object.Store       // a second client of the same store, as another process would have
	Blobs object.Blobs       // what Store keeps, to damage it
	Owner compute.Credential // may store objects in its project
	Other compute.Credential // of another project
}

// bench is one test's harness and words.
type bench struct {
	*testing.T
	Harness
	ctx context.Context
}

// Run runs the suite. open is called once per test and cleans up after itself.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	// This one measures memory, so it runs before the others and alone.
	t.Run("large data is streamed", func(t *testing.T) {
		large(bench{T: t, Harness: open(t), ctx: t.Context()})
	})
	for name, test := range map[string]func(b bench){
		"put and read":                     putAndRead,
		"put is idempotent":                putTwice,
		"a broken put goes on":             resume,
		"other data after a broken put":    resumeOther,
		"read from a segment on":           offsets,
		"damage is seen":                   damaged,
		"delete leaves nothing":            deleteAll,
		"another project is kept out":      otherProject,
		"nonsense is refused":              nonsense,
		"a broken put is listed as broken": listBroken,
		"list in parts misses nothing":     listInParts,
		"activity: seen":                   seen,
		"activity: remove":                 remove,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(bench{T: t, Harness: open(t), ctx: t.Context()})
		})
	}
}

const segment = 1000

func (b bench) input(size int) object.PutInput {
	in := object.PutInput{Credential: b.Owner, Name: "servers/" + uuid.NewString() + "/tpm", Size: int64(size), SegmentBytes: segment}
	b.Cleanup(func() { require.NoError(b, b.Store.Delete(context.Background(), in.Credential, in.Name)) })
	return in
}

func noise(size int) []byte {
	data := make([]byte, size)
	_, _ = rand.Read(data) // never fails
	return data
}

func (b bench) put(in object.PutInput, data []byte) object.PutResult {
	b.Helper()
	r, err := b.Store.Put(b.ctx, in, bytes.NewReader(data))
	require.NoError(b, err)
	return r
}

func (b bench) read(name string, offset int64) ([]byte, error) {
	b.Helper()
	r, err := b.Again.Open(b.ctx, b.Owner, name, offset)
	require.NoError(b, err)
	defer r.Close()
	return io.ReadAll(r)
}

func (b bench) requireKind(kind compute.Kind, err error) {
	b.Helper()
	require.Equal(b, kind, compute.KindOf(err), "%v", err)
}

func putAndRead(b bench) {
	for _, size := range []int{0, 1, segment - 1, segment, segment + 1, 5*segment + 7} {
		data := noise(size)
		in := b.input(size)
		var reported []int64
		in.Progress = func(done int64) { reported = append(reported, done) }
		r := b.put(in, data)
		require.EqualValues(b, size, r.SentBytes)
		require.Len(b, reported, (size+segment-1)/segment)
		m, err := b.Again.Get(b.ctx, b.Owner, in.Name)
		require.NoError(b, err)
		require.Equal(b, r.Manifest, m)
		sum := sha256.Sum256(data)
		require.Equal(b, hex.EncodeToString(sum[:]), m.SHA256)
		require.EqualValues(b, size, m.SizeBytes)
		got, err := b.read(in.Name, 0)
		require.NoError(b, err)
		require.True(b, bytes.Equal(data, got))
	}
}

func putTwice(b bench) {
	data := noise(3 * segment)
	in := b.input(len(data))
	first := b.put(in, data)
	again, err := b.Again.Put(b.ctx, in, bytes.NewReader(data))
	require.NoError(b, err)
	require.Equal(b, first.Manifest, again.Manifest)
	require.Zero(b, again.SentBytes)
	_, err = b.Again.Put(b.ctx, in, bytes.NewReader(noise(len(data))))
	b.requireKind(compute.Conflict, err)
	in.Size--
	_, err = b.Again.Put(b.ctx, in, bytes.NewReader(data))
	b.requireKind(compute.Conflict, err)
	got, err := b.read(in.Name, 0)
	require.NoError(b, err)
	require.True(b, bytes.Equal(data, got))
}

// failing is data that cannot be read from a place on.
type failing struct {
	io.ReaderAt
	from int64
}

var errDisk = errors.New("the disk is gone")

func (f failing) ReadAt(p []byte, at int64) (int, error) {
	if at+int64(len(p)) > f.from {
		return 0, errDisk
	}
	return f.ReaderAt.ReadAt(p, at)
}

// breakOff stores the first three segments of five.
func (b bench) breakOff(in object.PutInput, data []byte) {
	b.Helper()
	_, err := b.Store.Put(b.ctx, in, failing{bytes.NewReader(data), 3 * segment})
	require.ErrorIs(b, err, errDisk)
	b.requireKind(compute.Unavailable, err)
	_, err = b.Again.Get(b.ctx, b.Owner, in.Name)
	b.requireKind(compute.NotFound, err)
	_, err = b.Again.Open(b.ctx, b.Owner, in.Name, 0)
	b.requireKind(compute.NotFound, err)
}

func resume(b bench) {
	data := noise(5 * segment)
	in := b.input(len(data))
	b.breakOff(in, data)
	r, err := b.Again.Put(b.ctx, in, bytes.NewReader(data))
	require.NoError(b, err)
	require.EqualValues(b, 2*segment, r.SentBytes)
	got, err := b.read(in.Name, 0)
	require.NoError(b, err)
	require.True(b, bytes.Equal(data, got))
}

func (b bench) segments(name string) []string {
	b.Helper()
	names, err := b.Blobs.List(b.ctx, b.Owner, name+".segments/", "", 1000)
	require.NoError(b, err)
	return names
}

func resumeOther(b bench) {
	in := b.input(5 * segment)
	b.breakOff(in, noise(5*segment))
	require.Len(b, b.segments(in.Name), 3)
	data := noise(5 * segment)
	b.put(in, data)
	require.Len(b, b.segments(in.Name), 5, "the other data's are gone")
	got, err := b.read(in.Name, 0)
	require.NoError(b, err)
	require.True(b, bytes.Equal(data, got))
}

func offsets(b bench) {
	data := noise(3*segment + 5)
	in := b.input(len(data))
	b.put(in, data)
	for at := 0; at <= 3*segment; at += segment {
		got, err := b.read(in.Name, int64(at))
		require.NoError(b, err)
		require.True(b, bytes.Equal(data[at:], got))
	}
	got, err := b.read(in.Name, int64(len(data)))
	require.NoError(b, err)
	require.Empty(b, got)
	for _, at := range []int64{1, segment - 1, -1, int64(len(data)) + 1} {
		_, err := b.Store.Open(b.ctx, b.Owner, in.Name, at)
		b.requireKind(compute.Invalid, err)
	}
}

func damaged(b bench) {
	data := noise(3 * segment)
	for name, change := range map[string]func(blob string) error{
		"another byte": func(blob string) error {
			other := bytes.Clone(data[segment : 2*segment])
			other[segment/2] ^= 1
			return b.Blobs.Put(b.ctx, b.Owner, blob, bytes.NewReader(other))
		},
		"more": func(blob string) error {
			return b.Blobs.Put(b.ctx, b.Owner, blob, bytes.NewReader(append(bytes.Clone(data[segment:2*segment]), 0)))
		},
		"missing": func(blob string) error { return b.Blobs.Delete(b.ctx, b.Owner, blob) },
	} {
		in := b.input(len(data))
		b.put(in, data)
		require.NoError(b, change(b.segments(in.Name)[1]), name)
		got, err := b.read(in.Name, 0)
		require.Equal(b, compute.Corrupt, compute.KindOf(err), "%s: %v", name, err)
		require.LessOrEqual(b, len(got), 2*segment+1, name)
	}
	in := b.input(len(data))
	b.put(in, data)
	require.NoError(b, b.Blobs.Put(b.ctx, b.Owner, in.Name, bytes.NewReader([]byte("{"))))
	_, err := b.Store.Get(b.ctx, b.Owner, in.Name)
	b.requireKind(compute.Corrupt, err)
}

func deleteAll(b bench) {
	data := noise(5 * segment)
	whole, broken := b.input(len(data)), b.input(len(data))
	b.put(whole, data)
	b.breakOff(broken, data)
	stays := b.input(len(data))
	stays.Name = whole.Name + "-2" // of the same beginning
	b.Cleanup(func() { require.NoError(b, b.Store.Delete(context.Background(), b.Owner, stays.Name)) })
	b.put(stays, data)
	for _, in := range []object.PutInput{whole, broken} {
		for range 2 {
			require.NoError(b, b.Again.Delete(b.ctx, b.Owner, in.Name))
		}
		_, err := b.Store.Get(b.ctx, b.Owner, in.Name)
		b.requireKind(compute.NotFound, err)
		require.Empty(b, b.segments(in.Name))
	}
	got, err := b.read(stays.Name, 0)
	require.NoError(b, err)
	require.True(b, bytes.Equal(data, got))
}

func otherProject(b bench) {
	data := noise(segment)
	in := b.input(len(data))
	b.put(in, data)
	_, err := b.Store.Get(b.ctx, b.Other, in.Name)
	b.requireKind(compute.NotFound, err)
	_, err = b.Store.Open(b.ctx, b.Other, in.Name, 0)
	b.requireKind(compute.NotFound, err)
	require.NoError(b, b.Store.Delete(b.ctx, b.Other, in.Name))
	require.NotContains(b, b.list(b.Store, b.Other, object.ListInput{}), in.Name)
	got, err := b.read(in.Name, 0)
	require.NoError(b, err)
	require.True(b, bytes.Equal(data, got))
}

func nonsense(b bench) {
	for _, name := range []string{"", "/a", "..", "a/../b", "A", "a.b", "a b", "a%2fb", ".segments", string(bytes.Repeat([]byte("a"), 101))} {
		_, err := b.Store.Put(b.ctx, object.PutInput{Credential: b.Owner, Name: name}, bytes.NewReader(nil))
		require.Equal(b, compute.Invalid, compute.KindOf(err), "%q: %v", name, err)
	}
	for _, in := range []object.PutInput{{Size: -1}, {Size: 1, SegmentBytes: -1}, {Size: 1 << 40, SegmentBytes: 1}} {
		in.Credential, in.Name = b.Owner, "nonsense"
		_, err := b.Store.Put(b.ctx, in, bytes.NewReader(nil))
		b.requireKind(compute.Invalid, err)
	}
	_, err := b.Store.Put(b.ctx, object.PutInput{Name: "a"}, bytes.NewReader(nil))
	b.requireKind(compute.Forbidden, err)
	_, err = b.Store.List(b.ctx, compute.Credential{}, object.ListInput{})
	b.requireKind(compute.Forbidden, err)
	short := b.input(10)
	_, err = b.Store.Put(b.ctx, short, bytes.NewReader(noise(5)))
	b.requireKind(compute.Unavailable, err)
}

// large sends 128 MiB through and counts what is allocated on the way.
func large(b bench) {
	const size, allowed = 128 << 20, 24 << 20
	in := b.input(size)
	in.SegmentBytes = 32 << 20
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := b.Store.Put(b.ctx, in, pattern{})
	require.NoError(b, err)
	r, err := b.Store.Open(b.ctx, b.Owner, in.Name, 0)
	require.NoError(b, err)
	n, err := io.Copy(io.Discard, r)
	require.NoError(b, err)
	require.NoError(b, r.Close())
	runtime.ReadMemStats(&after)
	require.EqualValues(b, size, n)
	require.Less(b, after.TotalAlloc-before.TotalAlloc, uint64(allowed))
}

// pattern is endless data, mostly zeroes.
type pattern struct{}

func (pattern) ReadAt(p []byte, at int64) (int, error) {
	clear(p)
	if len(p) > 0 {
		p[0] = byte(at >> 12)
	}
	return len(p), nil
}
