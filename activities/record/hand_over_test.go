package record_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/activities/record"
	"strongroom/compute"
)

// What was handed over is its user's: it is no thing of the server any more, and a
// backup that is rotated out is released.
func TestHandOver(t *testing.T) {
	t.Parallel()
	b := setup(t)
	in := b.server(compute.OpCreateBackup)
	_, err := b.Begin(b.ctx, in)
	require.Error(t, err, "a backup has arguments")
	made := []compute.Thing{thing(in, compute.ThingKeySecret, "a"), thing(in, compute.ThingImage, "b")}
	require.NoError(t, b.open(in, record.Open{Event: "create_image", Things: made}))
	for range 2 {
		require.NoError(t, b.HandOver(b.ctx, record.HandOverInput{OperationInput: in, Things: made}))
	}
	require.Empty(t, b.states(in.Server))
	handed, err := b.ledger.HandedOver(b.ctx, compute.ServerOwner(in.Server))
	require.NoError(t, err)
	require.Len(t, handed, 2)
	require.Equal(t, in.Operation, handed[0].Operation)
	require.NoError(t, b.close(in, record.Close{Event: "rotate_backups", Released: handed[:1]}))
	left, err := b.ledger.HandedOver(b.ctx, compute.ServerOwner(in.Server))
	require.NoError(t, err)
	require.Equal(t, handed[1:], left)

	// An operation that lost the server may hand over what it made; what is gone stays so.
	whole := thing(in, compute.ThingImage, "whole")
	require.NoError(t, b.open(in, record.Open{Event: "create_image", Things: []compute.Thing{whole}}))
	b.supersede(in, compute.OpDelete, nil)
	require.NoError(t, b.HandOver(b.ctx, record.HandOverInput{OperationInput: in, Things: append(handed, whole)}))
	left, err = b.ledger.HandedOver(b.ctx, compute.ServerOwner(in.Server))
	require.NoError(t, err)
	require.Len(t, left, 2)
}
