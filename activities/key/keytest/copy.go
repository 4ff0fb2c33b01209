package keytest

import (
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/key"
	"strongroom/compute"
)

// copyOf asks for a copy, by the owner, of a secret of the owner's.
func (b bench) copyOf(from compute.SecretID, name string) key.CopyInput {
	return key.CopyInput{
		Credential: b.Owner, ID: compute.SecretID{UUID: uuid.New()}, Name: name, From: from, FromCredential: b.Owner,
	}
}

func (b bench) copy(in key.CopyInput) compute.SecretID {
	b.Helper()
	id, err := b.Manager.Copy(b.ctx, in)
	require.NoError(b, err)
	b.cleanUp(in.Credential, in.Name, id)
	return id
}

// A copy is a secret of its own: it outlives its source (EE-16).
func copyTwice(b bench) {
	source := b.input("copied")
	from := b.create(source)
	value := b.value(b.Manager, b.Owner, from)
	in := b.copyOf(from, "copy")
	id := b.copy(in)
	require.NotEqual(b, from, id)
	in.ID = compute.SecretID{UUID: uuid.New()} // another operation's
	again, err := b.Again.Copy(b.ctx, in)
	require.NoError(b, err)
	require.Equal(b, id, again)
	require.Equal(b, id, b.names(b.Owner)["copy"])

	require.NoError(b, b.Manager.Delete(b.ctx, key.DeleteInput{Credential: b.Owner, Name: source.Name}))
	require.Equal(b, value, b.value(b.Again, b.Owner, id))
}

func copyAtOnce(b bench) {
	in := b.copyOf(b.create(b.input("copied by many")), "copy of many")
	value := b.value(b.Manager, b.Owner, in.From)
	ids, errs := make([]compute.SecretID, 12), make([]error, 12)
	b.atOnce(len(ids), func(i int, m key.Manager) {
		mine := in
		if i%3 == 0 {
			mine.ID = compute.SecretID{UUID: uuid.New()}
		}
		ids[i], errs[i] = m.Copy(b.ctx, mine)
	})
	for i := range ids {
		require.NoError(b, errs[i])
		require.Equal(b, ids[0], ids[i])
	}
	b.cleanUp(in.Credential, in.Name, ids[0])
	require.Equal(b, ids[0], b.names(b.Owner)[in.Name])
	require.Equal(b, value, b.value(b.Again, b.Owner, ids[0]))
}

// The copy's owner need not be the source's: each side has its own credential.
func copyAcross(b bench) {
	in := b.copyOf(b.create(b.input("copied across")), "copy across")
	in.Credential = b.Other
	id := b.copy(in)
	require.Equal(b, b.value(b.Manager, b.Owner, in.From), b.value(b.Manager, b.Other, id))
	require.NotContains(b, b.names(b.Owner), in.Name)
	require.Equal(b, id, b.names(b.Other)[in.Name])
	p, err := b.Manager.Passphrase(b.ctx, b.Owner, id)
	require.Nil(b, p)
	require.Error(b, err)
}

func copyRefused(b bench) {
	from := b.create(b.input("not to be copied"))
	value := b.value(b.Manager, b.Owner, from)
	unreadable := []compute.Kind{compute.Forbidden, compute.NotFound}
	for name, c := range map[string]struct {
		change func(in *key.CopyInput)
		kinds  []compute.Kind
	}{
		"a stranger":         {func(in *key.CopyInput) { in.Credential, in.FromCredential = b.Other, b.Other }, unreadable},
		"nobody":             {func(in *key.CopyInput) { in.FromCredential = compute.Credential{} }, unreadable},
		"no such source":     {func(in *key.CopyInput) { in.From = compute.SecretID{UUID: uuid.New()} }, []compute.Kind{compute.NotFound}},
		"no source":          {func(in *key.CopyInput) { in.From = compute.SecretID{} }, []compute.Kind{compute.Invalid}},
		"no project":         {func(in *key.CopyInput) { in.Credential.ProjectID = "" }, []compute.Kind{compute.Invalid}},
		"no name":            {func(in *key.CopyInput) { in.Name = "" }, []compute.Kind{compute.Invalid}},
		"a name of no text":  {func(in *key.CopyInput) { in.Name = "\xff" }, []compute.Kind{compute.Invalid}},
		"a name that is had": {func(in *key.CopyInput) { in.Name = b.taken() }, []compute.Kind{compute.Conflict}},
	} {
		in := b.copyOf(from, "refused copy")
		c.change(&in)
		before := len(b.names(b.Owner))
		_, err := b.Manager.Copy(b.ctx, in)
		require.Contains(b, c.kinds, compute.KindOf(err), "%s: %v", name, err)
		require.NotContains(b, err.Error(), value, name)
		require.Len(b, b.names(b.Owner), before, name)
	}
	require.NotContains(b, b.names(b.Other), "refused copy")
}

// taken gives the name of a secret with another passphrase.
func (b bench) taken() string {
	b.create(b.input("taken"))
	return "taken"
}
