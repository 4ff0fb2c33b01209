package record_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/activities/record"
	"strongroom/compute"
)

// What was given is its owner's: it is no thing of the server any more, and a
// backup that is rotated out goes off the books.
func TestGiven(t *testing.T) {
	t.Parallel()
	b := setup(t)
	in := b.server(compute.OpCreateBackup)
	_, err := b.Begin(b.ctx, in)
	require.Error(t, err, "a backup has arguments")
	made := []compute.Thing{thing(in, compute.ThingKeySecret, "a"), thing(in, compute.ThingImage, "b")}
	require.NoError(t, b.Open(b.ctx, record.OpenInput{OperationInput: in, Event: "create_image", Things: made}))
	for range 2 {
		require.NoError(t, b.Give(b.ctx, record.GiveInput{OperationInput: in, Things: made}))
	}
	require.Empty(t, b.states(in.Server))
	given, err := b.Given(b.ctx, in.Server)
	require.NoError(t, err)
	require.Len(t, given, 2)
	require.Equal(t, in.Operation, given[0].Operation)
	require.NoError(t, b.Close(b.ctx, record.CloseInput{OperationInput: in, Event: "rotate_backups", Released: given[:1]}))
	left, err := b.Given(b.ctx, in.Server)
	require.NoError(t, err)
	require.Equal(t, given[1:], left)

	// Who lost the server may give what he made; what is gone stays off the books.
	whole := thing(in, compute.ThingImage, "whole")
	require.NoError(t, b.Open(b.ctx, record.OpenInput{OperationInput: in, Event: "create_image", Things: []compute.Thing{whole}}))
	b.supersede(in, compute.OpDelete, nil)
	require.NoError(t, b.Give(b.ctx, record.GiveInput{OperationInput: in, Things: append(given, whole)}))
	left, err = b.Given(b.ctx, in.Server)
	require.NoError(t, err)
	require.Len(t, left, 2)
}
