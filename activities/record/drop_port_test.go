package record_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/record"
	"strongroom/compute"
)

// An interface goes off the record, alone, by the operation that has the server. Who gave it frees the port, also when
// another one has the server by then.
func TestDropPort(t *testing.T) {
	t.Parallel()
	b := setup(t)
	one, two := compute.PortID{UUID: uuid.New()}, compute.PortID{UUID: uuid.New()}
	networks := []compute.Network{
		{UUID: "of a host", MAC: "02:00:00:00:00:01"}, {UUID: "n", Port: &compute.Port{ID: &one, Label: "lan"}}, {UUID: "n", Port: &compute.Port{ID: &two, Label: "lan"}},
	}
	first, second := b.server(compute.OpCreate), b.server(compute.OpCreate)
	_, err := b.Advance(b.ctx, record.AdvanceInput{OperationInput: first, Networks: networks})
	require.NoError(t, err)
	for range 2 { // an attempt that got no answer, and its successor
		require.NoError(t, b.DropPort(b.ctx, record.DropPortInput{OperationInput: first, Port: one}))
	}
	require.Equal(t, []compute.Network{networks[0], networks[2]}, b.row(first).Networks)
	_, err = b.Advance(b.ctx, record.AdvanceInput{OperationInput: second, Networks: networks[1:2]})
	require.NoError(t, err, "the port is free")
	require.NoError(t, b.DropPort(b.ctx, record.DropPortInput{OperationInput: first, Port: one, Undo: true}))
	require.Equal(t, networks[1:2], b.row(second).Networks, "it is another server's now")

	b.supersede(first, compute.OpReboot, compute.RebootArguments{})
	err = b.DropPort(b.ctx, record.DropPortInput{OperationInput: first, Port: two})
	require.True(t, record.IsSuperseded(err), "%v", err)
	require.Len(t, b.row(first).Networks, 2)
	require.NoError(t, b.DropPort(b.ctx, record.DropPortInput{OperationInput: first, Port: two, Undo: true}))
	require.Len(t, b.row(first).Networks, 2, "the server is the other one's")
	_, err = b.Advance(b.ctx, record.AdvanceInput{OperationInput: second, Networks: networks[1:]})
	require.NoError(t, err)
}
