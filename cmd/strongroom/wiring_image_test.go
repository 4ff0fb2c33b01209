package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	imagelocal "strongroom/activities/image/local"
	"strongroom/api"
	"strongroom/compute"
)

// The api asks the image store for little at once, and changes of an image what it names alone.
func TestTheApiReachesImages(t *testing.T) {
	t.Parallel()
	images, err := imagelocal.Open(imagelocal.Config{Dir: filepath.Join(t.TempDir(), "images")})
	require.NoError(t, err)
	store, cred := imageRecords{images}, compute.Credential{ProjectID: "p"}
	made := map[string]compute.Image{}
	for _, name := range []string{"one", "two"} {
		made[name], err = images.Create(t.Context(), cred, compute.Image{Name: name, Properties: map[string]string{"color": "blue"}})
		require.NoError(t, err)
	}
	part, err := store.Images(t.Context(), cred, api.ImageList{Limit: 1})
	require.NoError(t, err)
	require.Len(t, part.Images, 1)
	require.Equal(t, part.Images[0].ID, part.Last)
	rest, err := store.Images(t.Context(), cred, api.ImageList{Limit: 1, Marker: part.Next})
	require.NoError(t, err)
	require.Len(t, rest.Images, 1)
	require.NotEqual(t, part.Last, rest.Images[0].ID)
	require.Empty(t, rest.Next)
	for _, asked := range []struct {
		list api.ImageList
		want []compute.Image
	}{
		{api.ImageList{Name: "two", Statuses: []string{"queued"}}, []compute.Image{made["two"]}},
		{api.ImageList{Name: "two", Statuses: []string{"active"}}, nil},
		{api.ImageList{Name: "three"}, nil},
	} {
		part, err := store.Images(t.Context(), cred, asked.list)
		require.NoError(t, err)
		require.Equal(t, api.ImagePart{Images: asked.want}, part)
	}

	seen, err := store.Image(t.Context(), cred, made["one"].ID)
	require.NoError(t, err)
	_, err = images.ChangeProperties(t.Context(), cred, seen.ID, map[string]string{"os_encrypt_key_id": "said meanwhile"}, nil)
	require.NoError(t, err)
	now, err := store.ChangeImage(t.Context(), cred, seen.ID, map[string]string{"a": "b"}, func(name string) bool { return name == "color" })
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a": "b", "os_encrypt_key_id": "said meanwhile"}, now.Properties)
}
