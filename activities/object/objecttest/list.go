package objecttest

import (
	"bytes"
	"context"
	"slices"

	"github.com/stretchr/testify/require"

	"strongroom/activities/object"
	"strongroom/compute"
)

// list gives what a list has from a place on: names, and whether they are whole objects.
func (b bench) list(from object.Store, cred compute.Credential, in object.ListInput) map[string]bool {
	b.Helper()
	out := map[string]bool{}
	for {
		got, err := from.List(b.ctx, cred, in)
		require.NoError(b, err)
		for _, item := range got.Items {
			out[item.Name] = item.Whole
		}
		if in.Limit > 0 {
			require.LessOrEqual(b, len(got.Items), in.Limit)
		}
		if got.Next == "" {
			return out
		}
		require.Greater(b, got.Next, in.Marker, "the list goes on for ever")
		in.Marker = got.Next
	}
}

func listBroken(b bench) {
	data := noise(5 * segment)
	whole, broken := b.input(len(data)), b.input(len(data))
	b.put(whole, data)
	b.breakOff(broken, data)
	for _, limit := range []int{0, 1, 2, 3} { // the manifest alone, with a segment, with two
		got := b.list(b.Again, b.Owner, object.ListInput{Limit: limit})
		require.Contains(b, got, whole.Name)
		require.True(b, got[whole.Name])
		require.Contains(b, got, broken.Name)
		require.False(b, got[broken.Name])
	}
}

// What is there all the time is listed, whatever else comes and goes between two parts.
func listInParts(b bench) {
	var made []string
	for range 5 {
		in := b.input(2 * segment)
		b.put(in, noise(2*segment))
		made = append(made, in.Name)
	}
	slices.Sort(made)
	beside := b.input(segment) // between the manifest and the segments of the first one
	beside.Name = made[0] + "-2"
	b.Cleanup(func() { require.NoError(b, b.Store.Delete(context.Background(), b.Owner, beside.Name)) })
	b.put(beside, noise(segment))
	for _, limit := range []int{1, 4, 30} {
		got := b.list(b.Again, b.Owner, object.ListInput{Limit: limit})
		for _, name := range append(made, beside.Name) {
			require.True(b, got[name], "%s in parts of %d", name, limit)
		}
	}
	first, err := b.Store.List(b.ctx, b.Owner, object.ListInput{Limit: 4})
	require.NoError(b, err)
	require.NotEmpty(b, first.Next)
	for len(made) > 0 && made[0] <= first.Next { // that of the place itself, too
		require.NoError(b, b.Store.Delete(b.ctx, b.Owner, made[0]))
		made = made[1:]
	}
	b.put(b.input(segment), noise(segment))
	rest := b.list(b.Again, b.Owner, object.ListInput{Limit: 4, Marker: first.Next})
	for _, name := range made {
		require.True(b, rest[name], name)
	}
}

// What the audit sees of projects.
func seen(b bench) {
	data := noise(5 * segment)
	whole, broken := b.input(len(data)), b.input(len(data))
	b.put(whole, data)
	b.breakOff(broken, data)
	of := func(name string, cred compute.Credential) compute.Access {
		return compute.Access{Project: name, Credentials: []compute.Credential{cred}}
	}
	a := object.Activities{Store: b.Again}
	got, err := a.Seen(b.ctx, compute.SeenInput{Projects: []compute.Access{of("mine", b.Owner), of("nobody's", compute.Credential{})}})
	require.NoError(b, err)
	require.Equal(b, []string{"mine"}, got.Looked)
	require.Equal(b, []string{"nobody's"}, got.Closed)
	require.Empty(b, got.Next)
	for _, name := range []string{whole.Name, broken.Name} {
		require.Contains(b, got.Seen, compute.Seen{Kind: compute.ThingObject, Name: name})
	}
	got, err = a.Seen(b.ctx, compute.SeenInput{Projects: []compute.Access{of("theirs", b.Other)}})
	require.NoError(b, err)
	require.NotContains(b, got.Seen, compute.Seen{Kind: compute.ThingObject, Name: whole.Name})
}

// An undo finds a credential that may.
func remove(b bench) {
	data := noise(5 * segment)
	whole, broken := b.input(len(data)), b.input(len(data))
	b.put(whole, data)
	b.breakOff(broken, data)
	a := object.Activities{Store: b.Again}
	for _, in := range []object.PutInput{whole, broken} {
		gone := compute.Removal{
			Thing:       compute.Thing{Kind: compute.ThingObject, Name: in.Name},
			Credentials: []compute.Credential{{}},
		}
		b.requireKind(compute.Forbidden, a.Remove(b.ctx, gone))
		require.NotEmpty(b, b.segments(in.Name))
		gone.Credentials = append(gone.Credentials, b.Owner)
		for range 2 {
			require.NoError(b, a.Remove(b.ctx, gone))
			require.Empty(b, b.segments(in.Name))
			_, err := b.Store.Get(b.ctx, b.Owner, in.Name)
			b.requireKind(compute.NotFound, err)
		}
		gone.Thing.Kind = compute.ThingImage
		b.requireKind(compute.Invalid, a.Remove(b.ctx, gone))
	}
	got, err := b.Store.Put(b.ctx, whole, bytes.NewReader(data))
	require.NoError(b, err)
	require.EqualValues(b, len(data), got.SentBytes, "nothing was left of it")
}
