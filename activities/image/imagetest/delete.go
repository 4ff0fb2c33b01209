package imagetest

import (
	"bytes"
	"io"

	"github.com/stretchr/testify/require"

	"strongroom/activities/image"
	"strongroom/compute"
)

func deleteImage(b bench) {
	for _, img := range []compute.Image{b.create("raw", image.Private), b.active(image.Private, []byte("data"))} {
		require.NoError(b, b.Library.Delete(b.ctx, b.Owner, img.ID))
		_, err := b.Again.Get(b.ctx, b.Owner, img.ID)
		b.requireKind(compute.NotFound, err)
		_, err = b.Again.Open(b.ctx, b.Owner, img.ID)
		b.requireKind(compute.NotFound, err)
		require.False(b, b.listed(b.Owner, img.ID))
		b.requireKind(compute.NotFound, b.Library.Delete(b.ctx, b.Owner, img.ID))
	}
}

func protected(b bench) {
	want := b.image("raw", image.Private)
	want.Protected = true
	img, err := b.Library.Create(b.ctx, b.Owner, want)
	require.NoError(b, err)
	b.requireKind(compute.Forbidden, b.Library.Delete(b.ctx, b.Owner, img.ID))
	img, err = b.Library.ChangeProperties(b.ctx, b.Owner, img.ID, map[string]string{"os_distro": "other"}, nil)
	require.NoError(b, err, "it is protected from a delete alone")
	img.Protected = false
	_, err = b.Library.Update(b.ctx, b.Owner, img)
	require.NoError(b, err)
	require.NoError(b, b.Library.Delete(b.ctx, b.Owner, img.ID))
}

func otherProject(b bench) {
	for visibility, kind := range map[string]compute.Kind{
		image.Public: compute.Forbidden, image.Community: compute.Forbidden,
		image.Shared: compute.NotFound, image.Private: compute.NotFound,
	} {
		img := b.create("raw", visibility)
		for _, stranger := range []compute.Credential{b.Other, {}} {
			changed := img
			changed.Name = "taken over"
			_, err := b.Library.Update(b.ctx, stranger, changed)
			b.requireKind(kind, err)
			_, err = b.Library.ChangeProperties(b.ctx, stranger, img.ID, map[string]string{"os_distro": "theirs"}, nil)
			b.requireKind(kind, err)
			b.requireKind(kind, b.Library.Upload(b.ctx, stranger, img.ID, bytes.NewReader([]byte("x"))))
			b.requireKind(kind, b.Library.Delete(b.ctx, stranger, img.ID))
		}
		require.Equal(b, img, b.get(b.Owner, img.ID))
	}
}

// gate lets a test act while an upload is on its way.
type gate struct {
	data   io.Reader
	opened func()
}

func (g *gate) Read(p []byte) (int, error) {
	if g.opened != nil {
		g.opened()
		g.opened = nil
	}
	return g.data.Read(p)
}

func deleteDuringUpload(b bench) {
	img := b.create("raw", image.Private)
	err := b.Library.Upload(b.ctx, b.Owner, img.ID, &gate{
		data:   bytes.NewReader([]byte("too late")),
		opened: func() { require.NoError(b, b.Again.Delete(b.ctx, b.Owner, img.ID)) },
	})
	b.requireKind(compute.NotFound, err)
	_, err = b.Library.Get(b.ctx, b.Owner, img.ID)
	b.requireKind(compute.NotFound, err)
}

func deleteWhileReading(b bench) {
	data := bytes.Repeat([]byte("y"), 1<<20)
	img := b.active(image.Private, data)
	r, err := b.Library.Open(b.ctx, b.Owner, img.ID)
	require.NoError(b, err)
	defer func() { require.NoError(b, r.Close()) }()
	require.NoError(b, b.Library.Delete(b.ctx, b.Owner, img.ID))
	got, err := io.ReadAll(r)
	require.NoError(b, err)
	require.Equal(b, digest(data), digest(got))
}
