package workflows_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/activities/domain"
	"strongroom/compute"
	"strongroom/durable"
)

// paused is a bench with a server whose guest stands still.
func paused(t *testing.T) *bench {
	b := spawned(t)
	require.NoError(t, b.run(compute.OpPause, b.accept(compute.OpPause, compute.TaskPausing, nil), nil))
	b.forget()
	return b
}

// A guest that shuts itself down meanwhile cannot be paused, and its server is not held
// up by an undo that has nothing to take back.
func TestPauseOfAGuestThatIsOff(t *testing.T) {
	t.Parallel()
	for kind, setup := range map[compute.OperationKind]func(*testing.T) *bench{compute.OpPause: spawned, compute.OpUnpause: paused} {
		b := setup(t)
		vm := b.row.server.VMState
		in := b.accept(kind, compute.TaskPausing, nil)
		for machine := range b.domains {
			b.domains[machine] = compute.PowerShutdown
		}
		err := b.run(kind, in, nil)
		require.Equal(t, compute.Conflict, durable.FromTemporal(err).Kind)
		require.Equal(t, compute.OperationFailed, b.operations[in.Operation].State)
		require.Equal(t, vm, b.row.server.VMState, "what it is now the host's worker finds out")
		require.Empty(t, b.row.current)
		require.Equal(t, 1, b.count(domain.Pause.Name))
		require.Equal(t, 1, b.count(domain.Unpause.Name))
		require.Equal(t, []compute.PowerState{compute.PowerShutdown}, b.power())
	}
}

// What else may be done to a paused server leaves it paused, but for what boots it.
func TestOperationsOnAPausedServer(t *testing.T) {
	t.Parallel()
	copied := compute.SnapshotArguments{Image: imageID, Name: "copy", Key: compute.KeySame}
	for _, c := range []struct {
		kind      compute.OperationKind
		arguments any
		vm        compute.VMState
		power     compute.PowerState
	}{
		{compute.OpCreateImage, copied, compute.VMPaused, compute.PowerPaused},
		{compute.OpRotateKeys, compute.RotateArguments{}, compute.VMPaused, compute.PowerPaused},
		{compute.OpReboot, compute.RebootArguments{Hard: true}, compute.VMActive, compute.PowerRunning},
	} {
		b := paused(t)
		require.NoError(t, b.run(c.kind, b.accept(c.kind, compute.TaskNone, c.arguments), nil))
		require.Equal(t, c.vm, b.row.server.VMState, c.kind)
		require.Equal(t, c.power, b.row.server.PowerState, c.kind)
		require.Equal(t, []compute.PowerState{c.power}, b.power(), c.kind)
		require.Empty(t, b.broken)
		require.Empty(t, b.audit())
	}
	b := paused(t)
	in := b.accept(compute.OpDelete, compute.TaskDeleting, nil)
	require.NoError(t, b.run(compute.OpDelete, in, nil))
	b.gone(in)
}
