package workflows_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/activities/disk"
	"strongroom/activities/domain"
	"strongroom/compute"
)

// TestEveryBootMakesTheConfigDrive: with what opens the root disk at that time, and
// with nothing of what is on it in the workflow.
func TestEveryBootMakesTheConfigDrive(t *testing.T) {
	t.Parallel()
	for _, encrypted := range []bool{true, false} {
		b := newBench(t, encrypted)
		b.row.server.ConfigDrive = true
		for i, step := range []struct {
			kind      compute.OperationKind
			task      compute.TaskState
			arguments any
			boots     int
		}{
			{compute.OpCreate, compute.TaskScheduling, nil, 1},
			{compute.OpStop, compute.TaskPoweringOff, nil, 0},
			{compute.OpStart, compute.TaskPoweringOn, nil, 1},
			{compute.OpReboot, compute.TaskRebooting, compute.RebootArguments{}, 1},
		} {
			b.forget()
			in := b.accept(step.kind, step.task, step.arguments)
			require.NoError(t, b.run(step.kind, in, nil), i)
			b.whole(in, step.kind)
			require.Equal(t, step.boots, b.count(disk.CreateConfigDrive.Name), i)
			if step.boots == 0 {
				continue
			}
			calls := b.names()
			made := slices.IndexFunc(calls, func(c call) bool { return c.name == disk.CreateConfigDrive.Name })
			started := slices.IndexFunc(calls, func(c call) bool { return c.name == domain.Start.Name })
			require.Less(t, made, started)
			root, _ := b.row.server.RootDisk()
			var got disk.ConfigDriveInput
			require.NoError(t, json.Unmarshal([]byte(calls[made].detail), &got))
			require.Equal(t, root.Secret, got.Server.ConfigDriveSecret())
			require.Equal(t, encrypted, root.Secret != nil)
			require.Nil(t, got.Ahead)
		}
		b.forget()
		in := b.accept(compute.OpDelete, compute.TaskDeleting, nil)
		require.NoError(t, b.run(compute.OpDelete, in, nil))
		b.gone(in)
	}
}

// A server without one has no such step, as in histories of before there was one.
func TestAServerWithoutAConfigDriveMakesNone(t *testing.T) {
	t.Parallel()
	b := newBench(t, true)
	b.row.server.ConfigDrive = false
	require.NoError(t, b.run(compute.OpCreate, b.accept(compute.OpCreate, compute.TaskScheduling, nil), nil))
	require.Zero(t, b.count(disk.CreateConfigDrive.Name))
}

// A rebuild boots the new server before the record has it, so the config drive's input
// names the operation whose change it is to have; the old server's is made again in the undo.
func TestARebuildsConfigDriveIsTheNewServers(t *testing.T) {
	t.Parallel()
	for _, fails := range []bool{false, true} {
		b := spawned(t)
		old, _ := b.row.server.RootDisk()
		if fails {
			b.fault = func(c call) fault {
				if c.name == domain.Start.Name && c.nth == 1 {
					return fault{after: fail}
				}
				return fault{}
			}
		}
		in, err := b.rebuild(rebuildTo(crb))
		require.Equal(t, fails, err != nil)
		var drives []disk.ConfigDriveInput
		for _, c := range b.names() {
			if c.name == disk.CreateConfigDrive.Name {
				var got disk.ConfigDriveInput
				require.NoError(t, json.Unmarshal([]byte(c.detail), &got))
				drives = append(drives, got)
			}
		}
		root, _ := drives[0].Server.RootDisk()
		require.NotEqual(t, old.ID, root.ID)
		require.Equal(t, &in.Operation, drives[0].Ahead)
		if !fails {
			require.Len(t, drives, 1)
			continue
		}
		require.Len(t, drives, 2)
		root, _ = drives[1].Server.RootDisk()
		require.Equal(t, old.ID, root.ID)
		require.Nil(t, drives[1].Ahead)
		b.agrees()
	}
}
