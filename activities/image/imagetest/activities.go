package imagetest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing/iotest"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"

	"strongroom/activities/image"
	"strongroom/compute"
)

// exports is a folder as a host's.
type exports string

func (e exports) OpenExport(file string) (*os.File, error) {
	f, err := os.Open(filepath.Join(string(e), file))
	if errors.Is(err, os.ErrNotExist) {
		return nil, compute.Errorf(compute.NotFound, "no export %s", file)
	}
	return f, err
}

// export writes a file for an upload.
func (b bench) export(data []byte) (a *image.HostActivities, file string) {
	b.Helper()
	dir := b.TempDir()
	require.NoError(b, os.WriteFile(filepath.Join(dir, "disk.raw"), data, 0o600))
	return &image.HostActivities{Library: b.Library, Files: exports(dir)}, "disk.raw"
}

func describeActivity(b bench) {
	a := image.Activities{Library: b.Library}
	want := b.image("raw", image.Private)
	in := image.DescribeInput{Credential: b.Owner, Image: want.ID, Properties: map[string]string{"os_encrypt_format": "LUKSv1", "os_distro": "changed"}}
	b.requireKind(compute.NotFound, a.Describe(b.ctx, in))
	for range 2 {
		made, err := a.Create(b.ctx, image.CreateInput{Credential: b.Owner, Image: want})
		require.NoError(b, err)
		require.Equal(b, want.ID, made.Image.ID)
	}
	for range 2 {
		require.NoError(b, a.Describe(b.ctx, in))
		properties := map[string]string{"os_encrypt_format": "LUKSv1", "os_distro": "changed", "hw_tpm_version": "2.0"}
		require.Equal(b, properties, b.get(b.Owner, want.ID).Properties)
	}
	in.Credential, in.Properties = b.Other, map[string]string{"os_distro": "theirs"}
	b.requireKind(compute.NotFound, a.Describe(b.ctx, in))
	for range 2 {
		require.NoError(b, a.Remove(b.ctx, removal(want.ID, b.Owner)))
	}
}

func removal(id compute.ImageID, with ...compute.Credential) compute.Removal {
	return compute.Removal{Thing: compute.Thing{Kind: compute.ThingImage, Name: id.String()}, Credentials: with}
}

// An undo finds a credential that may.
func removeActivity(b bench) {
	img := b.active(image.Public, []byte("data"))
	a := image.Activities{Library: b.Library}
	b.requireKind(compute.Forbidden, a.Remove(b.ctx, removal(img.ID, b.Other, compute.Credential{})))
	b.requireKind(compute.Forbidden, a.Remove(b.ctx, removal(img.ID)))
	wrong := removal(img.ID, b.Owner)
	wrong.Thing.Kind = compute.ThingObject
	b.requireKind(compute.Invalid, a.Remove(b.ctx, wrong))
	require.NoError(b, a.Remove(b.ctx, removal(img.ID, b.Other, b.Owner)))
	_, err := b.Again.Get(b.ctx, b.Owner, img.ID)
	b.requireKind(compute.NotFound, err)
}

// Two attempts at once, and one whose predecessor's answer got lost, learn that
// the image has its data; another file's upload is refused.
func uploadActivity(b bench) {
	img := b.create("raw", image.Private)
	data := bytes.Repeat([]byte("disk"), 100_000)
	a, file := b.export(data)
	in := image.UploadInput{Credential: b.Owner, Image: img.ID, File: file}
	var got [3]image.UploadResult
	var errs [3]error
	var both sync.WaitGroup
	for i := range 2 {
		both.Go(func() { got[i], errs[i] = a.Upload(b.ctx, in) })
	}
	both.Wait()
	got[2], errs[2] = a.Upload(b.ctx, in)
	require.NoError(b, errors.Join(errs[:]...))
	now := b.get(b.Owner, img.ID)
	for _, r := range got {
		require.Equal(b, image.UploadResult{Bytes: int64(len(data)), SHA256: now.SHA256, SHA512: now.SHA512}, r)
	}
	require.Equal(b, digest(data), digest(b.read(b.Owner, img.ID)))

	for _, other := range [][]byte{data[1:], append([]byte("D"), data[1:]...)} {
		a, in.File = b.export(other)
		_, err := a.Upload(b.ctx, in)
		b.requireKind(compute.Conflict, err)
	}
}

// cut lets half of the data through.
type cut struct{ image.Library }

func (c cut) Upload(ctx context.Context, cred compute.Credential, id compute.ImageID, data io.Reader) error {
	return c.Library.Upload(ctx, cred, id, io.MultiReader(io.LimitReader(data, 200_000), iotest.ErrReader(errors.New("the host died"))))
}

// late cancels what asked for an upload when the image store has it all.
type late struct {
	image.Library
	cancel context.CancelFunc
}

func (l late) Upload(ctx context.Context, cred compute.Credential, id compute.ImageID, data io.Reader) error {
	err := l.Library.Upload(ctx, cred, id, data)
	l.cancel()
	return err
}

// A cancel that comes when everybody sees the image comes too late (EE-16).
func uploadActivityTooLate(b bench) {
	img := b.create("raw", image.Private)
	a, file := b.export(bytes.Repeat([]byte("disk"), 100_000))
	in := image.UploadInput{Credential: b.Owner, Image: img.ID, File: file}
	ctx, cancel := context.WithCancel(b.ctx)
	_, err := (&image.HostActivities{Library: late{b.Library, cancel}, Files: a.Files}).Upload(ctx, in)
	require.NoError(b, err)
	require.Error(b, ctx.Err())
}

func uploadActivityAgain(b bench) {
	img := b.create("raw", image.Private)
	data := bytes.Repeat([]byte("disk"), 100_000)
	a, file := b.export(data)
	in := image.UploadInput{Credential: b.Owner, Image: img.ID, File: file}
	_, err := (&image.HostActivities{Library: cut{b.Library}, Files: a.Files}).Upload(b.ctx, in)
	b.requireKind(compute.Unavailable, err)
	b.requireQueued(img.ID)
	cancelled, cancel := context.WithCancel(b.ctx)
	cancel()
	_, err = a.Upload(cancelled, in)
	require.Error(b, err)
	got, err := a.Upload(b.ctx, in)
	require.NoError(b, err)
	require.EqualValues(b, len(data), got.Bytes)
	require.Equal(b, digest(data), digest(b.read(b.Owner, img.ID)))
}

func uploadActivityRefuses(b bench) {
	img := b.create("raw", image.Private)
	a, file := b.export([]byte("data"))
	_, err := a.Upload(b.ctx, image.UploadInput{Credential: b.Owner, Image: img.ID, File: "another"})
	b.requireKind(compute.NotFound, err)
	_, err = a.Upload(b.ctx, image.UploadInput{Credential: b.Owner, Image: compute.ImageID{UUID: uuid.New()}, File: file})
	b.requireKind(compute.NotFound, err)
	_, err = a.Upload(b.ctx, image.UploadInput{Credential: b.Other, Image: img.ID, File: file})
	b.requireKind(compute.NotFound, err)
	b.requireQueued(img.ID)
}

func uploadActivityReports(b bench) {
	img := b.create("raw", image.Private)
	data := bytes.Repeat([]byte("disk"), 100_000)
	a, file := b.export(data)
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	a.Register(env)
	var beats []image.Progress
	env.SetOnActivityHeartbeatListener(func(_ *activity.Info, details converter.EncodedValues) {
		var p image.Progress
		require.NoError(b, details.Get(&p))
		beats = append(beats, p)
	})
	_, err := env.ExecuteActivity(image.Upload.Name, image.UploadInput{Credential: b.Owner, Image: img.ID, File: file})
	require.NoError(b, err)
	require.NotEmpty(b, beats)
	require.Equal(b, "upload", beats[0].Phase)
	require.EqualValues(b, len(data), beats[0].Total)
	require.Positive(b, beats[0].Done)
}
