package workflows_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

func TestSpawnMakesAServer(t *testing.T) {
	t.Parallel()
	b := newBench(t, true)
	in := b.accept(compute.OpCreate, compute.TaskScheduling, nil)
	require.NoError(t, b.run(compute.OpCreate, in, nil))
	require.Equal(t, compute.OperationSucceeded, b.operations[in.Operation].State)
	s := b.row.server
	require.Equal(t, compute.VMActive, s.VMState)
}
