package record_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/record"
	"strongroom/compute"
)

// A port is one server's until that is deleted, or its create is undone. Networks of hosts stay.
func TestAPortIsOneServers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	port := compute.PortID{UUID: uuid.New()}
	networks := []compute.Network{{UUID: "of a host", MAC: "02:00:00:00:00:01"}, {UUID: "n", Port: &compute.Port{ID: &port, Label: "lan"}}}
	first, second := b.server(compute.OpCreate), b.server(compute.OpCreate)
	for range 2 { // an attempt that got no answer, and its successor
		_, err := b.Advance(b.ctx, record.AdvanceInput{OperationInput: first, Networks: networks})
		require.NoError(t, err)
	}
	require.Equal(t, networks, b.row(first).Networks)
	begun, err := b.Begin(b.ctx, first)
	require.NoError(t, err)
	require.Equal(t, networks, begun.Server.Networks)
	_, err = b.Advance(b.ctx, record.AdvanceInput{OperationInput: second, Networks: networks})
	require.Equal(t, compute.Conflict, compute.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "Port "+port.String()+" is still in use.")
	require.Empty(t, b.row(second).Networks)

	require.NoError(t, b.ClearPorts(b.ctx, second))
	require.Equal(t, networks, b.row(first).Networks)
	for range 2 {
		require.NoError(t, b.ClearPorts(b.ctx, first))
	}
	require.Equal(t, networks[:1], b.row(first).Networks)
	_, err = b.Advance(b.ctx, record.AdvanceInput{OperationInput: second, Networks: networks})
	require.NoError(t, err)

	gone := b.supersede(second, compute.OpDelete, nil)
	require.NoError(t, b.ClearPorts(b.ctx, second))
	require.Equal(t, networks, b.row(second).Networks, "another operation has the server")
	require.NoError(t, b.FinishDelete(b.ctx, record.FinishDeleteInput{OperationInput: gone}))
	_, err = b.Advance(b.ctx, record.AdvanceInput{OperationInput: first, Networks: networks})
	require.NoError(t, err)
}
