package keytest

import (
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/key"
	"strongroom/compute"
)

func createTwice(b bench) {
	in := b.input("twice")
	id := b.create(in)
	before := b.value(b.Manager, b.Owner, id)

	again, err := b.Manager.Create(b.ctx, in)
	require.NoError(b, err)
	require.Equal(b, id, again)

	// Another operation's id, another length: the secret of that name stays.
	in.ID, in.Bytes = compute.SecretID{UUID: uuid.New()}, compute.TPMPassphraseBytes
	again, err = b.Again.Create(b.ctx, in)
	require.NoError(b, err)
	require.Equal(b, id, again)
	require.Equal(b, before, b.value(b.Manager, b.Owner, id))
	require.Equal(b, id, b.names(b.Owner)["twice"])
}

func createAtOnce(b bench) {
	const callers = 16
	in := b.input("at once")
	ids, errs := make([]compute.SecretID, callers), make([]error, callers)
	b.atOnce(callers, func(i int, m key.Manager) {
		mine := in
		if i%3 == 0 {
			mine.ID = compute.SecretID{UUID: uuid.New()}
		}
		ids[i], errs[i] = m.Create(b.ctx, mine)
	})
	for i := range callers {
		require.NoError(b, errs[i])
		require.Equal(b, ids[0], ids[i])
	}
	require.Equal(b, ids[0], b.names(b.Owner)["at once"]) // names refuses two of one name
	require.NoError(b, b.Manager.Delete(b.ctx, key.DeleteInput{Credential: b.Owner, Name: in.Name, ID: &ids[0]}))
	require.NotContains(b, b.names(b.Owner), "at once")
}

func createNonsense(b bench) {
	for name, change := range map[string]func(*key.CreateInput){
		"no project":        func(in *key.CreateInput) { in.Credential.ProjectID = "" },
		"no name":           func(in *key.CreateInput) { in.Name = "" },
		"a name of no text": func(in *key.CreateInput) { in.Name = "\xff\xfe" },
		"no bytes":          func(in *key.CreateInput) { in.Bytes = 0 },
		"negative bytes":    func(in *key.CreateInput) { in.Bytes = -1 },
		"absurd bytes":      func(in *key.CreateInput) { in.Bytes = 1 << 30 },
	} {
		in := b.input("nonsense " + name)
		change(&in)
		_, err := b.Manager.Create(b.ctx, in)
		require.Equal(b, compute.Invalid, compute.KindOf(err), "%s: %v", name, err)
	}
	for name := range b.names(b.Owner) {
		require.NotContains(b, name, "nonsense")
	}
}

func namesPerProject(b bench) {
	mine := b.input("shared name")
	theirs := b.input("shared name")
	theirs.Credential = b.Other
	a, c := b.create(mine), b.create(theirs)
	require.NotEqual(b, a, c)
	require.NotEqual(b, b.value(b.Manager, b.Owner, a), b.value(b.Manager, b.Other, c))

	require.NoError(b, b.Manager.Delete(b.ctx, key.DeleteInput{Credential: b.Owner, Name: mine.Name}))
	b.gone(b.Owner, a)
	require.NotEmpty(b, b.value(b.Manager, b.Other, c))
}
