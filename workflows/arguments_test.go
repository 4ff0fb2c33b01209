package workflows_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/durable"
)

// C1, C4: an operation does nothing in the workflow of another kind, though both have the
// same workflow id, and leaves the server as it was.
func TestC1AnOperationRunsInItsOwnWorkflowAlone(t *testing.T) {
	t.Parallel()
	b := spawned(t)
	in := b.accept(compute.OpStop, compute.TaskPoweringOff, nil)
	err := b.run(compute.OpReboot, in, nil)
	require.Contains(t, durable.FromTemporal(err).Message, "is a stop and no reboot")
	require.Equal(t, compute.OperationFailed, b.operations[in.Operation].State)
	require.Equal(t, compute.VMActive, b.row.server.VMState)
	require.Equal(t, compute.TaskNone, b.row.server.TaskState)
	require.Equal(t, []compute.PowerState{compute.PowerRunning}, b.power())
}
