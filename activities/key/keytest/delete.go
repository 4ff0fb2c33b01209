package keytest

import (
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/key"
	"strongroom/compute"
)

func deleteTwice(b bench) {
	in := b.input("delete twice")
	id := b.create(in)
	del := key.DeleteInput{Credential: b.Owner, Name: in.Name, ID: &id}
	require.NoError(b, b.Manager.Delete(b.ctx, del))
	b.gone(b.Owner, id)
	require.NotContains(b, b.names(b.Owner), in.Name)
	require.NoError(b, b.Manager.Delete(b.ctx, del))
	require.NoError(b, b.Again.Delete(b.ctx, key.DeleteInput{Credential: b.Owner, Name: "never was"}))
	never := compute.SecretID{UUID: uuid.New()}
	require.NoError(b, b.Again.Delete(b.ctx, key.DeleteInput{Credential: b.Owner, Name: "never was", ID: &never}))
}

func deleteByName(b bench) {
	in := b.input("by name")
	id, stays := b.create(in), b.create(b.input("by name, another"))
	require.NoError(b, b.Manager.Delete(b.ctx, key.DeleteInput{Credential: b.Owner, Name: in.Name}))
	b.gone(b.Owner, id)
	require.NotEmpty(b, b.value(b.Manager, b.Owner, stays))
}

func recreate(b bench) {
	in := b.input("again")
	first := b.value(b.Manager, b.Owner, b.create(in))
	require.NoError(b, b.Manager.Delete(b.ctx, key.DeleteInput{Credential: b.Owner, Name: in.Name}))
	second := b.value(b.Again, b.Owner, b.create(in))
	require.NotEqual(b, first, second)
}

// deleteAtOnce: whichever comes last, there is one secret or none, and one more
// delete leaves none.
func deleteAtOnce(b bench) {
	in := b.input("settles")
	errs := make([]error, 12)
	b.atOnce(len(errs), func(i int, m key.Manager) {
		if i%3 == 0 {
			_, errs[i] = m.Create(b.ctx, in)
			return
		}
		errs[i] = m.Delete(b.ctx, key.DeleteInput{Credential: b.Owner, Name: in.Name})
	})
	for _, err := range errs {
		require.NoError(b, err)
	}
	b.names(b.Owner)
	require.NoError(b, b.Manager.Delete(b.ctx, key.DeleteInput{Credential: b.Owner, Name: in.Name}))
	require.NotContains(b, b.names(b.Owner), in.Name)
}

func otherProject(b bench) {
	in := b.input("mine")
	id := b.create(in)
	before := b.value(b.Manager, b.Owner, id)
	strangers := []compute.Credential{b.Other, {}}

	for _, stranger := range strangers {
		p, err := b.Manager.Passphrase(b.ctx, stranger, id)
		require.Nil(b, p)
		require.Contains(b, []compute.Kind{compute.Forbidden, compute.NotFound}, compute.KindOf(err), "%v", err)

		err = b.Manager.Delete(b.ctx, key.DeleteInput{Credential: stranger, Name: in.Name, ID: &id})
		require.Equal(b, compute.Forbidden, compute.KindOf(err), "%v", err)
		err = b.Manager.Delete(b.ctx, key.DeleteInput{Credential: stranger, Name: "wrong", ID: &id})
		require.Equal(b, compute.Forbidden, compute.KindOf(err), "%v", err)
	}
	require.NoError(b, b.Manager.Delete(b.ctx, key.DeleteInput{Credential: b.Other, Name: in.Name}))
	require.Equal(b, before, b.value(b.Again, b.Owner, id))
	require.NotContains(b, b.names(b.Other), in.Name)
}

func silentErrors(b bench) {
	in := b.input("silent")
	id := b.create(in)
	value := b.value(b.Manager, b.Owner, id)
	_, taken := b.Manager.Create(b.ctx, key.CreateInput{Credential: b.Other, ID: id, Name: "silent too", Bytes: in.Bytes})
	if taken == nil { // a manager that chooses its own ids
		require.NoError(b, b.Manager.Delete(b.ctx, key.DeleteInput{Credential: b.Other, Name: "silent too"}))
	}
	_, read := b.Manager.Passphrase(b.ctx, b.Other, id)
	erase := b.Manager.Delete(b.ctx, key.DeleteInput{Credential: b.Other, Name: "x", ID: &id})
	require.Error(b, read)
	require.Error(b, erase)
	for _, err := range []error{taken, read, erase} {
		if err != nil {
			require.NotContains(b, err.Error(), value)
		}
	}
}
