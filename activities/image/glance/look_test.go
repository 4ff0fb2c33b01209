package glance_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/stretchr/testify/require"

	"strongroom/activities/image"
	"strongroom/compute"
	"strongroom/deploy/cloud/cloudtest"
)

// EE-44: a hidden image is in no usual list. It is there all the same, and so is the key that it
// names.
func TestEE44AHiddenImageIsThere(t *testing.T) {
	t.Parallel()
	l, cred := library(t, cloudtest.NewProject(t), "member")
	img, err := l.Create(t.Context(), cred, private())
	require.NoError(t, err)
	client, err := l.Clients.Client(t.Context(), cred)
	require.NoError(t, err)
	_, err = images.Update(t.Context(), client, img.ID.String(), images.UpdateOpts{images.ReplaceImageHidden{NewHidden: true}}).Extract()
	require.NoError(t, err)
	listed, err := l.List(t.Context(), cred, image.ListInput{Own: true, IDs: []compute.ImageID{img.ID}})
	require.NoError(t, err)
	require.Empty(t, listed.Images)
	seen, err := image.Look(t.Context(), l, cred, []compute.ImageID{img.ID})
	require.NoError(t, err)
	require.Contains(t, seen.There, img.ID)
	named, err := l.Naming(t.Context(), cred, compute.SecretID{UUID: uuid.MustParse(img.Properties["os_encrypt_key_id"])})
	require.NoError(t, err)
	require.Equal(t, []compute.ImageID{img.ID}, named)
	require.NoError(t, l.Delete(t.Context(), cred, img.ID))
	seen, err = image.Look(t.Context(), l, cred, []compute.ImageID{img.ID})
	require.NoError(t, err)
	require.Empty(t, seen.There)
	require.True(t, seen.Gone[img.ID])
}

// EE-44: to a user of the project who has no role of the image store's, an image that is there is never
// gone: either he sees it, or he is refused.
func TestEE44AUserWithoutTheRole(t *testing.T) {
	t.Parallel()
	project := cloudtest.NewProject(t)
	l, cred := library(t, project, "member")
	img, err := l.Create(t.Context(), cred, private())
	require.NoError(t, err)
	other, less := library(t, project, "creator")
	seen, err := image.Look(t.Context(), other, less, []compute.ImageID{img.ID})
	if err == nil {
		require.NotContains(t, seen.Gone, img.ID)
	} else {
		require.Equal(t, compute.Forbidden, compute.KindOf(err), "%v", err)
	}
	require.NoError(t, l.Delete(t.Context(), cred, img.ID))
}
