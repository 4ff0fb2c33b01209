package workflows_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/durable"
)

// C4: an operation whose arguments are not those of the workflow that runs fails and
// leaves the server as it was.
func TestOperationWithoutTheWorkflowsArguments(t *testing.T) {
	t.Parallel()
	b := spawned(t)
	in := b.accept(compute.OpStop, compute.TaskPoweringOff, nil)
	err := b.run(compute.OpReboot, in, nil)
	require.Equal(t, "these are no arguments of a reboot", durable.FromTemporal(err).Message)
	require.Equal(t, compute.OperationFailed, b.operations[in.Operation].State)
	require.Equal(t, compute.VMActive, b.row.server.VMState)
	require.Equal(t, compute.TaskNone, b.row.server.TaskState)
	require.Equal(t, []compute.PowerState{compute.PowerRunning}, b.power())
}
