package imagetest

import (
	"context"
	"sync"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/image"
	"strongroom/compute"
)

func createAndGet(b bench) {
	want := b.image("raw", image.Private)
	img, err := b.Library.Create(b.ctx, b.Owner, want)
	require.NoError(b, err)
	require.Equal(b, image.StatusQueued, img.Status)
	require.Equal(b, b.Owner.ProjectID, img.Owner)
	require.False(b, img.CreatedAt.IsZero())
	require.Equal(b, want.Properties, img.Properties)
	require.Equal(b, img, b.get(b.Owner, img.ID))
	require.True(b, b.listed(b.Owner, img.ID))

	want.ID = compute.ImageID{}
	made, err := b.Library.Create(b.ctx, b.Owner, want)
	require.NoError(b, err)
	require.NotEqual(b, uuid.Nil, made.ID.UUID)

	_, err = b.Library.Get(b.ctx, b.Owner, compute.ImageID{UUID: uuid.New()})
	b.requireKind(compute.NotFound, err)
}

func createTwice(b bench) {
	want := b.image("raw", image.Private)
	first, err := b.Library.Create(b.ctx, b.Owner, want)
	require.NoError(b, err)
	again, err := b.Again.Create(b.ctx, b.Owner, want)
	require.NoError(b, err)
	require.Equal(b, first, again)

	other := want
	other.Name = "another"
	_, err = b.Library.Create(b.ctx, b.Owner, other)
	b.requireKind(compute.Conflict, err)
	_, err = b.Library.Create(b.ctx, b.Other, want)
	b.requireKind(compute.Conflict, err)
	require.Equal(b, first, b.get(b.Owner, first.ID))
}

func createAtOnce(b bench) {
	want := b.image("raw", image.Private)
	made, errs := make([]compute.Image, 8), make([]error, 8)
	var wg sync.WaitGroup
	for i := range made {
		wg.Go(func() { made[i], errs[i] = b.Library.Create(b.ctx, b.Owner, want) })
	}
	wg.Wait()
	for i := range made {
		require.NoError(b, errs[i])
		require.Equal(b, made[0], made[i])
	}
}

func createNonsense(b bench) {
	for name, change := range map[string]func(*compute.Image){
		"disk format":      func(img *compute.Image) { img.DiskFormat = "floppy" },
		"container format": func(img *compute.Image) { img.ContainerFormat = "box" },
		"visibility":       func(img *compute.Image) { img.Visibility = "secret" },
		"min disk":         func(img *compute.Image) { img.MinDiskGB = -1 },
		"min ram":          func(img *compute.Image) { img.MinRAMMB = -1 },
	} {
		img := b.image("raw", image.Private)
		change(&img)
		_, err := b.Library.Create(b.ctx, b.Owner, img)
		require.Equal(b, compute.Invalid, compute.KindOf(err), "%s: %v", name, err)
		_, err = b.Library.Get(b.ctx, b.Owner, img.ID)
		b.requireKind(compute.NotFound, err)
	}
	img := b.image("raw", image.Private)
	img.Owner = b.Other.ProjectID
	_, err := b.Library.Create(b.ctx, b.Owner, img)
	b.requireKind(compute.Forbidden, err)
	_, err = b.Library.Create(b.ctx, compute.Credential{}, b.image("raw", image.Private))
	b.requireKind(compute.Forbidden, err)
}

func update(b bench) {
	img := b.active(image.Private, []byte("data"))
	want := img
	want.Name, want.Visibility, want.Protected = "renamed", image.Public, true
	want.Tags, want.MinDiskGB, want.MinRAMMB = []string{"a", "b"}, 3, 512
	want.Properties = map[string]string{"hw_tpm_model": "tpm-crb"}
	want.SHA256, want.SizeBytes, want.Status, want.Owner = "0", 99, "queued", b.Other.ProjectID // not for clients to say

	got, err := b.Library.Update(b.ctx, b.Owner, want)
	require.NoError(b, err)
	want.SHA256, want.SizeBytes, want.Status, want.Owner = img.SHA256, img.SizeBytes, img.Status, img.Owner
	want.UpdatedAt = got.UpdatedAt
	require.Equal(b, want, got)
	require.Equal(b, got, b.get(b.Other, img.ID))
	require.Equal(b, []byte("data"), b.read(b.Other, img.ID))

	want.Protected = false
	_, err = b.Library.Update(b.ctx, b.Owner, want)
	require.NoError(b, err)

	want.DiskFormat = "qcow2"
	_, err = b.Library.Update(b.ctx, b.Owner, want)
	b.requireKind(compute.Forbidden, err)
	want.DiskFormat, want.Visibility = "raw", "secret"
	_, err = b.Library.Update(b.ctx, b.Owner, want)
	b.requireKind(compute.Invalid, err)

	queued := b.create("raw", image.Private)
	queued.DiskFormat = "qcow2"
	queued, err = b.Library.Update(b.ctx, b.Owner, queued)
	require.NoError(b, err)
	require.Equal(b, "qcow2", queued.DiskFormat)
}

// Of an image whose formats nothing here reads all else is changed.
func updateForeign(b bench) {
	id := b.Foreign(b.T, "iso", "docker")
	b.Cleanup(func() { require.NoError(b, b.Library.Delete(context.Background(), b.Owner, id)) })
	img := b.get(b.Owner, id)
	require.Equal(b, []string{"iso", "docker"}, []string{img.DiskFormat, img.ContainerFormat})
	img.Name, img.Properties = "renamed", map[string]string{"os_distro": "debian"}
	got, err := b.Library.Update(b.ctx, b.Owner, img)
	require.NoError(b, err)
	require.Equal(b, "renamed", got.Name)
	got, err = b.Library.ChangeProperties(b.ctx, b.Owner, id, map[string]string{"os_version": "13"}, nil)
	require.NoError(b, err)
	require.Equal(b, map[string]string{"os_distro": "debian", "os_version": "13"}, got.Properties)
	img.DiskFormat = "floppy"
	_, err = b.Library.Update(b.ctx, b.Owner, img)
	b.requireKind(compute.Invalid, err)
}

// What an image got since a caller looked at it stays when the caller changes its properties.
func changeProperties(b bench) {
	img := b.create("raw", image.Private)
	_, err := b.Again.ChangeProperties(b.ctx, b.Owner, img.ID, map[string]string{"os_encrypt_key_id": "of a secret", "with/slash~tilde": "goes"}, nil)
	require.NoError(b, err)
	set := map[string]string{"os_distro": "other", "new": "one"}
	got, err := b.Library.ChangeProperties(b.ctx, b.Owner, img.ID, set, func(name string) bool { return !compute.OpensImage(name) })
	require.NoError(b, err)
	require.Equal(b, map[string]string{"os_encrypt_key_id": "of a secret", "os_distro": "other", "new": "one"}, got.Properties)
	require.Equal(b, got, b.get(b.Owner, img.ID))
	img.Properties, img.UpdatedAt = got.Properties, got.UpdatedAt
	require.Equal(b, img, got, "nothing else changes")
	again, err := b.Library.ChangeProperties(b.ctx, b.Owner, img.ID, set, nil)
	require.NoError(b, err)
	require.Equal(b, got, again)
	got, err = b.Library.ChangeProperties(b.ctx, b.Owner, img.ID, nil, func(string) bool { return true })
	require.NoError(b, err)
	require.Empty(b, got.Properties)
	require.Empty(b, b.get(b.Owner, img.ID).Properties)
	got, err = b.Library.ChangeProperties(b.ctx, b.Owner, img.ID, set, nil)
	require.NoError(b, err)
	require.Equal(b, set, got.Properties)
	_, err = b.Library.ChangeProperties(b.ctx, b.Owner, compute.ImageID{UUID: uuid.New()}, set, nil)
	b.requireKind(compute.NotFound, err)
}

func visibility(b bench) {
	for visibility, others := range map[string]struct{ read, list bool }{
		image.Public:    {true, true},
		image.Community: {true, false},
		image.Shared:    {false, false},
		image.Private:   {false, false},
	} {
		data := []byte("data of a " + visibility + " image")
		img := b.active(visibility, data)
		require.True(b, b.listed(b.Owner, img.ID))
		require.Equal(b, data, b.read(b.Owner, img.ID))
		for _, stranger := range []compute.Credential{b.Other, {UserID: "no project"}} {
			_, getErr := b.Library.Get(b.ctx, stranger, img.ID)
			r, openErr := b.Library.Open(b.ctx, stranger, img.ID)
			if others.read {
				require.NoError(b, getErr)
				require.NoError(b, openErr)
				require.NoError(b, r.Close())
				continue
			}
			b.requireKind(compute.NotFound, getErr)
			b.requireKind(compute.NotFound, openErr)
		}
		require.Equal(b, others.list, b.listed(b.Other, img.ID), visibility)
		require.True(b, b.listed(compute.Credential{}, img.ID), "the operator's list has all")
	}
}
