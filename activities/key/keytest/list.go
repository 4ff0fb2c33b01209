package keytest

import (
	"fmt"

	"github.com/stretchr/testify/require"

	"strongroom/activities/key"
	"strongroom/compute"
)

// names gives the ids of a project's secrets by their names.
func (b bench) names(cred compute.Credential) map[string]compute.SecretID {
	b.Helper()
	return b.namesFrom(cred, key.ListInput{})
}

// namesFrom gives what a list has from a place on. A secret may be in several parts.
func (b bench) namesFrom(cred compute.Credential, in key.ListInput) map[string]compute.SecretID {
	b.Helper()
	out := map[string]compute.SecretID{}
	for {
		got, err := b.Again.List(b.ctx, cred, in)
		require.NoError(b, err)
		for _, item := range got.Items {
			if have, twice := out[item.Name]; twice {
				require.Equal(b, have, item.ID, "two secrets of one name")
			}
			require.Equal(b, cred.ProjectID, item.ProjectID)
			out[item.Name] = item.ID
		}
		if in.Limit > 0 {
			require.LessOrEqual(b, len(got.Items), in.Limit)
		}
		if got.Next == "" {
			return out
		}
		require.NotEqual(b, in.Marker, got.Next, "the list goes on for ever")
		in.Marker = got.Next
	}
}

func list(b bench) {
	require.NotContains(b, b.names(b.Owner), "list one")
	one, two := b.create(b.input("list one")), b.create(b.input("list two"))
	got := b.names(b.Owner)
	require.Equal(b, one, got["list one"])
	require.Equal(b, two, got["list two"])
	require.NotContains(b, b.names(b.Other), "list one")
}

// What is there all the time is listed, whatever else comes and goes between two parts.
func listInParts(b bench) {
	made := map[string]compute.SecretID{}
	for i := range 10 {
		name := fmt.Sprintf("one of many %02d", i)
		made[name] = b.create(b.input(name))
	}
	for _, limit := range []int{3, 5, 9, 10} {
		require.Equal(b, made, b.namesFrom(b.Owner, key.ListInput{Limit: limit}), "parts of %d", limit)
	}
	first, err := b.Manager.List(b.ctx, b.Owner, key.ListInput{Limit: 4})
	require.NoError(b, err)
	require.Len(b, first.Items, 4)
	require.NotEmpty(b, first.Next)
	for _, item := range first.Items[1:] { // the last one that was given, too
		require.NoError(b, b.Manager.Delete(b.ctx, key.DeleteInput{Credential: b.Owner, Name: item.Name, ID: &item.ID}))
	}
	for _, item := range first.Items {
		delete(made, item.Name)
	}
	b.create(b.input("made meanwhile"))
	rest := b.namesFrom(b.Owner, key.ListInput{Limit: 4, Marker: first.Next})
	for name, id := range made {
		require.Equal(b, id, rest[name], name)
	}
	for _, item := range first.Items[1:] {
		require.NotContains(b, rest, item.Name)
	}
}

// What the audit sees, at once or of projects one by one.
func seen(b bench) {
	made := []string{"seen one", "seen two"}
	for _, name := range made {
		b.create(b.input(name))
	}
	of := func(name string, cred compute.Credential) compute.Access {
		return compute.Access{Project: name, Credentials: []compute.Credential{cred}}
	}
	a := key.Activities{Manager: b.Again}
	got, err := a.Seen(b.ctx, compute.SeenInput{Projects: []compute.Access{of("mine", b.Owner), of("nobody's", compute.Credential{})}})
	require.NoError(b, err)
	require.Empty(b, got.Next)
	for _, name := range made {
		require.Contains(b, got.Seen, compute.Seen{Kind: compute.ThingKeySecret, Name: name})
	}
	if got.Looked[0] != compute.LookedAll {
		require.Equal(b, []string{"mine"}, got.Looked)
		require.Equal(b, []string{"nobody's"}, got.Closed)
	}
	_, err = a.Seen(b.ctx, compute.SeenInput{Page: "nonsense", Projects: []compute.Access{of("mine", b.Owner)}})
	require.Equal(b, compute.Invalid, compute.KindOf(err), "%v", err)
}

// An undo finds a credential that may.
func remove(b bench) {
	in := b.input("removed")
	id := b.create(in)
	a := key.Activities{Manager: b.Again}
	gone := compute.Removal{
		Thing:       compute.Thing{Kind: compute.ThingKeySecret, Name: in.Name, Reference: id.String()},
		Credentials: []compute.Credential{{}},
	}
	for range 2 {
		err := a.Remove(b.ctx, gone)
		require.Equal(b, compute.Forbidden, compute.KindOf(err), "%v", err)
		gone.Credentials = nil
	}
	gone.Credentials = []compute.Credential{{}, b.Owner}
	for range 2 {
		require.NoError(b, a.Remove(b.ctx, gone))
		b.gone(b.Owner, id)
	}
	gone.Thing.Reference = "" // by its name alone
	b.create(in)
	require.NoError(b, a.Remove(b.ctx, gone))
	require.NotContains(b, b.names(b.Owner), in.Name)
	gone.Thing.Kind = compute.ThingTrust
	err := a.Remove(b.ctx, gone)
	require.Equal(b, compute.Invalid, compute.KindOf(err), "%v", err)
}
