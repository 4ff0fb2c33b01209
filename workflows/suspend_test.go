package workflows_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"strongroom/activities/domain"
	"strongroom/compute"
	"strongroom/durable"
)

// suspended is a bench with a server whose guest's memory is on disk.
func suspended(t *testing.T) *bench { return suspendedFrom(plain)(t) }

// suspendedFrom gives a bench as another one, whose server is suspended.
func suspendedFrom(setup func(*testing.T) *bench) func(*testing.T) *bench {
	return func(t *testing.T) *bench {
		b := setup(t)
		require.NoError(t, b.run(compute.OpSuspend, b.accept(compute.OpSuspend, compute.TaskSuspending, nil), nil))
		b.forget()
		return b
	}
}

// encrypting gives a bench as another one, on a host that encrypts the memory of guests.
func encrypting(setup func(*testing.T) *bench) func(*testing.T) *bench {
	return func(t *testing.T) *bench {
		b := setup(t)
		b.encrypts = true
		return b
	}
}

// Whatever asked for it, a host is told when the memory of a guest may not lie in clear, and one where it would refuses.
func TestSuspendOfAServerWithSomethingEncrypted(t *testing.T) {
	t.Parallel()
	for name, setup := range map[string]func(*testing.T) *bench{"disks and a vTPM": spawned, "disks": withoutTPM} {
		b := setup(t)
		in := b.accept(compute.OpSuspend, compute.TaskSuspending, nil)
		err := b.run(compute.OpSuspend, in, nil)
		require.ErrorContains(t, err, "in clear", name)
		require.Equal(t, compute.OperationFailed, b.operations[in.Operation].State)
		require.Empty(t, b.suspended, name)
		require.Equal(t, compute.VMActive, b.row.server.VMState)
		require.Equal(t, []compute.PowerState{compute.PowerRunning}, b.power())
	}
}

// A guest whose memory is lost is not booted by a resume, and by a hard reboot.
func TestResumeWithoutTheMemory(t *testing.T) {
	t.Parallel()
	b := suspended(t)
	clear(b.suspended)
	err := b.run(compute.OpResume, b.accept(compute.OpResume, compute.TaskResuming, nil), nil)
	require.Equal(t, compute.Conflict, durable.FromTemporal(err).Kind)
	require.Equal(t, compute.VMSuspended, b.row.server.VMState)
	require.Equal(t, []compute.PowerState{compute.PowerShutdown}, b.power())
	require.NoError(t, b.run(compute.OpReboot, b.accept(compute.OpReboot, compute.TaskRebootingHard, compute.RebootArguments{Hard: true}), nil))
	require.Equal(t, compute.VMActive, b.row.server.VMState)
	require.Empty(t, b.audit())
}

// A snapshot of a suspended server leaves it suspended; a hard reboot boots it without its memory.
func TestOperationsOnASuspendedServer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind      compute.OperationKind
		arguments any
		vm        compute.VMState
		power     compute.PowerState
		saved     int
	}{
		{compute.OpCreateImage, compute.SnapshotArguments{Image: imageID, Name: "copy", Key: compute.KeySame}, compute.VMSuspended, compute.PowerShutdown, 1},
		{compute.OpReboot, compute.RebootArguments{Hard: true}, compute.VMActive, compute.PowerRunning, 0},
	} {
		b := suspended(t)
		require.NoError(t, b.run(c.kind, b.accept(c.kind, compute.TaskNone, c.arguments), nil))
		require.Equal(t, c.vm, b.row.server.VMState, c.kind)
		require.Equal(t, c.power, b.row.server.PowerState, c.kind)
		require.Equal(t, []compute.PowerState{c.power}, b.power(), c.kind)
		require.Len(t, b.suspended, c.saved, c.kind)
		require.Empty(t, b.broken)
		require.Empty(t, b.audit())
	}
	b := suspended(t)
	in := b.accept(compute.OpDelete, compute.TaskDeleting, nil)
	require.NoError(t, b.run(compute.OpDelete, in, nil))
	b.gone(in)
}

// Where the guest cannot go on again, for somebody else's keys, say, the server is suspended: what the guest had in its memory is not lost.
func TestSuspendThatCannotBeUndone(t *testing.T) {
	t.Parallel()
	b := encrypting(spawned)(t)
	in := b.accept(compute.OpSuspend, compute.TaskSuspending, nil)
	require.Error(t, b.run(compute.OpSuspend, in, func(env *testsuite.TestWorkflowEnvironment) {
		b.fault = func(c call) fault {
			switch c.name {
			case domain.Suspend.Name:
				return fault{after: func() error { env.CancelWorkflow(); return nil }}
			case domain.Start.Name:
				return fault{before: func() error { return compute.Errorf(compute.Forbidden, "the keys are another's") }}
			}
			return fault{}
		}
	}))
	require.Equal(t, compute.OperationCancelled, b.operations[in.Operation].State)
	require.Equal(t, compute.VMSuspended, b.row.server.VMState)
	require.Len(t, b.suspended, 1)
}

// A suspension that is cancelled because its host is down, and fenced, leaves a server that can be evacuated.
func TestSuspendOnAHostThatIsDown(t *testing.T) {
	t.Parallel()
	b := encrypting(fenced(spawned))(t)
	from := b.hosts[0]
	in := b.accept(compute.OpSuspend, compute.TaskSuspending, nil)
	require.Error(t, b.run(compute.OpSuspend, in, func(env *testsuite.TestWorkflowEnvironment) {
		b.fault = func(c call) fault {
			if c.name != domain.Suspend.Name {
				return fault{}
			}
			return fault{before: func() error {
				b.down[from], b.forced[from] = true, true
				env.CancelWorkflow()
				return errBroken
			}}
		}
	}))
	b.fault = nil
	clear(b.cut) // of a run with the same id
	require.Equal(t, compute.OperationCancelled, b.operations[in.Operation].State)
	require.Equal(t, compute.VMActive, b.row.server.VMState)
	require.NoError(t, b.run(compute.OpEvacuate, b.accept(compute.OpEvacuate, compute.TaskRebuilding, compute.EvacuateArguments{}), nil))
	require.NotEqual(t, from, *b.row.server.Host)
}
