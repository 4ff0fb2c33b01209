package imagetest

import (
	"bytes"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"io"
	"runtime"
	"sync"
	"testing/iotest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/image"
	"strongroom/compute"
)

func uploadActivates(b bench) {
	data := bytes.Repeat([]byte("strongroom"), 100_000)
	img := b.create("raw", image.Private)
	b.requireQueued(img.ID)
	require.NoError(b, b.Library.Upload(b.ctx, b.Owner, img.ID, iotest.OneByteReader(bytes.NewReader(data[:5000]))))
	img = b.get(b.Owner, img.ID)
	require.Equal(b, image.StatusActive, img.Status)
	require.EqualValues(b, 5000, img.SizeBytes)
	require.EqualValues(b, 5000, img.VirtualBytes)
	if img.SHA256 != "" || img.SHA512 == "" {
		require.Equal(b, digest(data[:5000]), img.SHA256)
	} else {
		sum := sha512.Sum512(data[:5000])
		require.Equal(b, hex.EncodeToString(sum[:]), img.SHA512)
	}
	require.Equal(b, data[:5000], b.read(b.Owner, img.ID))
	require.Equal(b, data, b.read(b.Owner, b.active(image.Private, data).ID))
}

func uploadQcow2(b bench) {
	for _, compat := range []string{"0.10", "1.1"} {
		data := qemuImg(b.T, "x.qcow2", "create", "-q", "-f", "qcow2", "-o", "compat="+compat, "x.qcow2", "100M")
		img := b.create("qcow2", image.Private)
		require.NoError(b, b.Library.Upload(b.ctx, b.Owner, img.ID, bytes.NewReader(data)))
		img = b.get(b.Owner, img.ID)
		require.EqualValues(b, len(data), img.SizeBytes)
		require.EqualValues(b, 100<<20, img.VirtualBytes)
		require.Equal(b, data, b.read(b.Owner, img.ID))
	}
}

func uploadTwice(b bench) {
	img := b.active(image.Private, []byte("first"))
	b.requireKind(compute.Conflict, b.Library.Upload(b.ctx, b.Owner, img.ID, bytes.NewReader([]byte("second"))))
	require.Equal(b, []byte("first"), b.read(b.Owner, img.ID))

	bare := b.create("", image.Private)
	b.requireKind(compute.Conflict, b.Library.Upload(b.ctx, b.Owner, bare.ID, bytes.NewReader([]byte("of no format"))))
}

func uploadAtOnce(b bench) {
	img := b.create("raw", image.Private)
	bodies := [][]byte{bytes.Repeat([]byte("a"), 1<<20), bytes.Repeat([]byte("b"), 1<<20), bytes.Repeat([]byte("c"), 1<<20)}
	errs := make([]error, len(bodies))
	var wg sync.WaitGroup
	for i, body := range bodies {
		wg.Go(func() { errs[i] = b.Library.Upload(b.ctx, b.Owner, img.ID, bytes.NewReader(body)) })
	}
	wg.Wait()
	var won [][]byte
	for i, err := range errs {
		if err == nil {
			won = append(won, bodies[i])
			continue
		}
		b.requireKind(compute.Conflict, err)
	}
	require.Equal(b, [][]byte{b.read(b.Owner, img.ID)}, won)
}

func uploadBroken(b bench) {
	img := b.create("raw", image.Private)
	broken := errors.New("the line went dead")
	err := b.Library.Upload(b.ctx, b.Owner, img.ID, io.MultiReader(bytes.NewReader(make([]byte, 1<<20)), iotest.ErrReader(broken)))
	require.ErrorIs(b, err, broken)
	b.requireQueued(img.ID)
	require.Eventually(b, func() bool { // the store may begin with the broken one only now: who meets it may try again
		err = b.Library.Upload(b.ctx, b.Owner, img.ID, bytes.NewReader([]byte("whole")))
		return !compute.Is(err, compute.Unavailable)
	}, time.Minute, 100*time.Millisecond)
	require.NoError(b, err)
	require.Equal(b, []byte("whole"), b.read(b.Owner, img.ID))
}

func uploadMismatch(b bench) {
	qcow2 := qemuImg(b.T, "x.qcow2", "create", "-q", "-f", "qcow2", "x.qcow2", "1M")
	noise := bytes.Repeat([]byte{0x5a}, 100_000)
	for name, tc := range map[string]struct {
		format string
		data   []byte
	}{
		"qcow2 that says raw":   {"raw", qcow2},
		"noise that says qcow2": {"qcow2", noise},
		"noise that says luks":  {"luks", noise},
		"a head of qcow2 alone": {"qcow2", qcow2[:200]},
		"magic and nothing":     {"qcow2", []byte("QFI\xfb")},
		"magic and noise":       {"qcow2", append([]byte("QFI\xfb\x00\x00\x00\x03"), noise...)},
		"nothing":               {"raw", nil},
	} {
		img := b.create(tc.format, image.Private)
		err := b.Library.Upload(b.ctx, b.Owner, img.ID, bytes.NewReader(tc.data))
		require.Equal(b, compute.Invalid, compute.KindOf(err), "%s: %v", name, err)
		b.requireQueued(img.ID)
	}
}

// uploadHostile: an image that names a file of the host would hand that file to
// its owner.
func uploadHostile(b bench) {
	backed := qemuImg(b.T, "x.qcow2", "create", "-q", "-f", "qcow2", "-u", "-b", "/etc/shadow", "-F", "raw", "x.qcow2", "1M")
	outside := qemuImg(b.T, "x.qcow2", "create", "-q", "-f", "qcow2", "-o", "data_file=d.raw,data_file_raw=on", "x.qcow2", "1M")
	hidden := bytes.Clone(outside)
	hidden[79] &^= 1 << 2 // the feature bit is gone, the name of the file is still there
	for name, data := range map[string][]byte{
		"backing file": backed, "data file": outside, "data file without its bit": hidden,
		"backing file of an old version": qemuImg(b.T, "x.qcow2", "create", "-q", "-f", "qcow2", "-o", "compat=0.10", "-u", "-b", "/etc/shadow", "-F", "raw", "x.qcow2", "1M"),
	} {
		img := b.create("qcow2", image.Private)
		err := b.Library.Upload(b.ctx, b.Owner, img.ID, bytes.NewReader(data))
		require.Equal(b, compute.Invalid, compute.KindOf(err), "%s: %v", name, err)
		require.Contains(b, err.Error(), "refers to another file", name)
		b.requireQueued(img.ID)
	}
}

func openQueued(b bench) {
	img := b.create("raw", image.Public)
	_, err := b.Library.Open(b.ctx, b.Other, img.ID)
	b.requireKind(compute.Conflict, err)
	_, err = b.Library.OpenUnchecked(b.ctx, b.Other, img.ID)
	b.requireKind(compute.Conflict, err)
	_, err = b.Library.OpenUnchecked(b.ctx, b.Other, compute.ImageID{UUID: uuid.New()})
	b.requireKind(compute.NotFound, err)
}

func openDamaged(b bench) {
	if b.Damage == nil {
		b.Skip("this adapter's data cannot be damaged by a test")
	}
	img := b.active(image.Private, bytes.Repeat([]byte("x"), 300_000))
	b.Damage(b.T, img)
	r, err := b.Library.Open(b.ctx, b.Owner, img.ID)
	require.NoError(b, err)
	defer func() { require.NoError(b, r.Close()) }()
	_, err = io.Copy(io.Discard, r)
	b.requireKind(compute.Corrupt, err)
	unchecked, err := b.Library.OpenUnchecked(b.ctx, b.Owner, img.ID)
	require.NoError(b, err)
	defer func() { require.NoError(b, unchecked.Close()) }()
	_, err = io.Copy(io.Discard, unchecked)
	require.NoError(b, err)
}

// largeData sends 256 MiB through and counts what is allocated on the way.
func largeData(b bench) {
	const size, allowed = 256 << 20, 24 << 20
	img := b.create("raw", image.Private)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)

	require.NoError(b, b.Library.Upload(b.ctx, b.Owner, img.ID, io.LimitReader(pattern{}, size)))
	r, err := b.Library.Open(b.ctx, b.Owner, img.ID)
	require.NoError(b, err)
	n, err := io.Copy(io.Discard, r)
	require.NoError(b, err)
	require.NoError(b, r.Close())

	runtime.ReadMemStats(&after)
	require.EqualValues(b, size, n)
	require.EqualValues(b, size, b.get(b.Owner, img.ID).SizeBytes)
	require.Less(b, after.TotalAlloc-before.TotalAlloc, uint64(allowed))
}

// pattern is endless data, mostly zeroes.
type pattern struct{}

func (pattern) Read(p []byte) (int, error) {
	clear(p)
	if len(p) > 0 {
		p[0] = 0xa5
	}
	return len(p), nil
}
