package keytest

import (
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/key"
	"strongroom/compute"
)

func checkMakesNothing(b bench) {
	before := b.names(b.Owner)
	for range 3 {
		require.NoError(b, b.Manager.Check(b.ctx, b.Owner))
	}
	require.NoError(b, b.Again.Check(b.ctx, b.Other))
	require.Equal(b, before, b.names(b.Owner))
	err := b.Manager.Check(b.ctx, compute.Credential{})
	require.Equal(b, compute.Forbidden, compute.KindOf(err), "a project is needed: %v", err)
}

// names: whoever may read a secret is told its name, nobody else.
func names(b bench) {
	id := b.create(b.input("called so"))
	for _, m := range []key.Manager{b.Manager, b.Again} {
		name, err := m.Name(b.ctx, b.Owner, id)
		require.NoError(b, err)
		require.Equal(b, "called so", name)
		name, err = m.Name(b.ctx, b.Other, id)
		require.Contains(b, []compute.Kind{compute.Forbidden, compute.NotFound}, compute.KindOf(err), "%v", err)
		require.Empty(b, name)
		_, err = m.Name(b.ctx, b.Owner, compute.SecretID{UUID: uuid.New()})
		require.Equal(b, compute.NotFound, compute.KindOf(err), "%v", err)
	}
}

// checkActivity: the activity succeeds for whoever may read a secret.
func checkActivity(b bench) {
	a := key.Activities{Manager: b.Manager}
	id := b.create(b.input("checked"))
	require.NoError(b, a.Check(b.ctx, key.CheckInput{Credential: b.Owner, Secret: id}))
	for _, in := range []key.CheckInput{{Credential: b.Other, Secret: id}, {Secret: id}, {Credential: b.Owner, Secret: compute.SecretID{UUID: uuid.New()}}} {
		err := a.Check(b.ctx, in)
		require.Contains(b, []compute.Kind{compute.Forbidden, compute.NotFound}, compute.KindOf(err), "%v", err)
	}
}
