package imagetest

import (
	"context"
	"maps"
	"slices"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/image"
	"strongroom/compute"
)

func (b bench) listed(cred compute.Credential, id compute.ImageID) bool {
	b.Helper()
	return b.list(cred, image.ListInput{})[id]
}

// list gives what a list has from a place on.
func (b bench) list(cred compute.Credential, in image.ListInput) map[compute.ImageID]bool {
	b.Helper()
	out := map[compute.ImageID]bool{}
	for {
		got, err := b.Again.List(b.ctx, cred, in)
		require.NoError(b, err)
		for _, img := range got.Images {
			out[img.ID] = true
		}
		if in.Limit > 0 {
			require.LessOrEqual(b, len(got.Images), in.Limit)
		}
		if got.Next == "" {
			return out
		}
		require.NotEqual(b, in.Marker, got.Next, "the list goes on for ever")
		in.Marker = got.Next
	}
}

// What is there all the time is listed, whatever else comes and goes between two parts.
func listInParts(b bench) {
	made := map[compute.ImageID]bool{}
	for range 10 {
		made[b.create("raw", image.Private).ID] = true
	}
	for _, limit := range []int{3, 5, 10} {
		got := b.list(b.Owner, image.ListInput{Limit: limit, Own: true})
		require.Subset(b, slices.Collect(maps.Keys(got)), slices.Collect(maps.Keys(made)), "parts of %d", limit)
	}
	in := image.ListInput{Limit: 4, Own: true, IDs: slices.Collect(maps.Keys(made))}
	first, err := b.Library.List(b.ctx, b.Owner, in)
	require.NoError(b, err)
	require.Len(b, first.Images, 4)
	require.NotEmpty(b, first.Next)
	for _, img := range first.Images {
		delete(made, img.ID)
	}
	for _, img := range first.Images[1:] { // the last one that was given, too
		require.NoError(b, b.Library.Delete(b.ctx, b.Owner, img.ID))
	}
	in.IDs = append(in.IDs, b.create("raw", image.Private).ID)
	in.Marker = first.Next
	rest := b.list(b.Owner, in)
	for id := range made {
		require.True(b, rest[id])
	}
	for _, img := range first.Images[1:] {
		require.False(b, rest[img.ID])
	}
}

func listAsked(b bench) {
	whole, half := b.active(image.Public, []byte("data")), b.create("raw", image.Public)
	gone := compute.ImageID{UUID: uuid.New()}
	these := []compute.ImageID{whole.ID, half.ID, gone}
	for _, c := range []struct {
		cred compute.Credential
		in   image.ListInput
		want []compute.ImageID
	}{
		{b.Owner, image.ListInput{IDs: these}, []compute.ImageID{whole.ID, half.ID}},
		{b.Other, image.ListInput{IDs: these}, []compute.ImageID{whole.ID, half.ID}},
		{b.Other, image.ListInput{IDs: these, Own: true}, nil},
		{b.Owner, image.ListInput{IDs: these, Statuses: []string{image.StatusActive}}, []compute.ImageID{whole.ID}},
		{b.Owner, image.ListInput{IDs: these, Statuses: []string{image.StatusQueued, "saving"}}, []compute.ImageID{half.ID}},
		{b.Owner, image.ListInput{IDs: these[2:]}, nil},
		{b.Owner, image.ListInput{IDs: these[:2], Own: true, Limit: 1}, []compute.ImageID{whole.ID, half.ID}},
	} {
		got := b.list(c.cred, c.in)
		require.ElementsMatch(b, c.want, slices.Collect(maps.Keys(got)), "%+v", c.in)
	}
	var all []compute.ImageID
	for img, err := range image.All(b.ctx, b.Library, b.Owner, image.ListInput{IDs: these, Limit: 1}) {
		require.NoError(b, err)
		all = append(all, img.ID)
	}
	require.ElementsMatch(b, these[:2], all)
}

// A name is looked for as it is, whatever a store's filters know of operators.
func listNamed(b bench) {
	names := map[compute.ImageID]string{}
	for _, name := range []string{"debian", "debian:13", `in:debian,"x"`, "eq:debian", "2026-11-20T12:00:00Z"} {
		want := b.image("raw", image.Private)
		want.Name = name
		img, err := b.Library.Create(b.ctx, b.Owner, want)
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, b.Library.Delete(context.Background(), b.Owner, img.ID)) })
		names[img.ID] = name
	}
	ids := slices.Collect(maps.Keys(names))
	for id, name := range names {
		for _, newest := range []bool{false, true} {
			got := b.list(b.Owner, image.ListInput{IDs: ids, Name: name, Newest: newest, Limit: 2})
			require.Equal(b, map[compute.ImageID]bool{id: true}, got, name)
		}
	}
	require.Empty(b, b.list(b.Owner, image.ListInput{IDs: ids, Name: "deb"}))
}

// The newest come first, in parts of any size, behind an image that the caller names, and behind one that is gone meanwhile.
func listNewest(b bench) {
	made := map[compute.ImageID]compute.Image{}
	for range 4 {
		img := b.create("raw", image.Private)
		made[img.ID] = img
	}
	ids := slices.Collect(maps.Keys(made))
	given := func(marker string, limit int) (found []compute.ImageID) {
		in := image.ListInput{Own: true, IDs: ids, Newest: true, Marker: marker, Limit: limit}
		for img, err := range image.All(b.ctx, b.Again, b.Owner, in) {
			require.NoError(b, err)
			found = append(found, img.ID)
		}
		return found
	}
	want := given("", 0)
	require.ElementsMatch(b, ids, want)
	require.True(b, slices.IsSortedFunc(want, func(x, y compute.ImageID) int { return made[y].CreatedAt.Compare(made[x].CreatedAt) })) // a store may know parts of a second that it does not tell
	for _, limit := range []int{0, 1, 3} {
		require.Equal(b, want, given("", limit), "parts of %d", limit)
		require.Equal(b, want[2:], given(want[1].String(), limit), "parts of %d", limit)
	}
	for _, none := range []string{uuid.NewString(), "none"} {
		_, err := b.Again.List(b.ctx, b.Owner, image.ListInput{Newest: true, Marker: none})
		b.requireKind(compute.Invalid, err)
	}
	first, err := b.Library.List(b.ctx, b.Owner, image.ListInput{Own: true, IDs: ids, Newest: true, Limit: 2})
	require.NoError(b, err)
	require.Equal(b, want[1], first.Last)
	require.NoError(b, b.Library.Delete(b.ctx, b.Owner, want[1]))
	require.Subset(b, given(first.Next, 2), want[2:])
}
