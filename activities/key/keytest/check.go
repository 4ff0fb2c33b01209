package keytest

import (
	"github.com/stretchr/testify/require"

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
