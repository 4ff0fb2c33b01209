package imagetest

import (
	"strings"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/image"
	"strongroom/compute"
)

// Images that name a secret are found by each property and spelling, also those of a project
// that others may list, and nobody finds what he may not see (EE-44).
func naming(b bench) {
	for _, property := range compute.NamingProperties() {
		for _, spell := range []func(string) string{strings.ToLower, strings.ToUpper} {
			secret := compute.SecretID{UUID: uuid.New()}
			img := b.image("raw", image.Private)
			img.Properties = map[string]string{property: spell(secret.String())}
			img, err := b.Library.Create(b.ctx, b.Owner, img)
			require.NoError(b, err)
			b.Cleanup(func() { _ = b.Library.Delete(b.ctx, b.Owner, img.ID) })
			found, err := b.Again.Naming(b.ctx, b.Owner, secret)
			require.NoError(b, err)
			require.Equal(b, []compute.ImageID{img.ID}, found, property)
			found, err = b.Again.Naming(b.ctx, b.Other, secret)
			require.NoError(b, err)
			require.Empty(b, found)
			require.NoError(b, b.Library.Delete(b.ctx, b.Owner, img.ID))
			found, err = b.Again.Naming(b.ctx, b.Owner, secret)
			require.NoError(b, err)
			require.Empty(b, found, "it is gone")
		}
	}
}

// A look tells what is there from what is gone, for a credential of the project alone.
func look(b bench) {
	there, gone, public := b.create("raw", image.Private), b.create("raw", image.Private), b.create("raw", image.Public)
	require.NoError(b, b.Library.Delete(b.ctx, b.Owner, gone.ID))
	ids := []compute.ImageID{there.ID, gone.ID, public.ID, {UUID: uuid.New()}}
	for _, l := range []image.Library{b.Library, b.Again} {
		got, err := image.Look(b.ctx, l, b.Owner, ids)
		require.NoError(b, err)
		require.Len(b, got.There, 2)
		require.Equal(b, there.Name, got.There[there.ID].Name)
		require.Contains(b, got.There, public.ID)
		require.Len(b, got.Gone, 2)
		require.True(b, got.Gone[gone.ID])
		require.Empty(b, got.Failed)
	}
	got, err := image.Look(b.ctx, b.Library, b.Other, []compute.ImageID{public.ID})
	require.NoError(b, err)
	require.Len(b, got.There, 1, "another's that it sees is there")
	_, err = image.Look(b.ctx, b.Library, compute.Credential{}, ids)
	b.requireKind(compute.Forbidden, err)
}
