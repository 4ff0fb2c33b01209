package compute_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

var allVMStates = []compute.VMState{
	compute.VMActive, compute.VMBuilding, compute.VMPaused, compute.VMSuspended, compute.VMStopped, compute.VMRescued,
	compute.VMResized, compute.VMSoftDelete, compute.VMDeleted, compute.VMError, compute.VMShelved, compute.VMShelvedOffloaded,
}

var someTasks = []compute.TaskState{
	"", "scheduling", "spawning", "updating_password", "resize_prep", "resize_migrating", "resize_migrated", "resize_finish",
	"resize_reverting", "rebooting", "reboot_pending", "reboot_started", "rebooting_hard", "reboot_pending_hard",
	"reboot_started_hard", "rebuilding", "rebuild_block_device_mapping", "rebuild_spawning", "migrating", "deleting",
}

func TestStatus(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		vm     compute.VMState
		task   compute.TaskState
		status string
	}{
		{"active", "", "ACTIVE"},
		{"active", "deleting", "ACTIVE"},
		{"active", "rebooting", "REBOOT"},
		{"active", "reboot_pending", "REBOOT"},
		{"active", "reboot_started", "REBOOT"},
		{"active", "rebooting_hard", "HARD_REBOOT"},
		{"active", "reboot_pending_hard", "HARD_REBOOT"},
		{"active", "reboot_started_hard", "HARD_REBOOT"},
		{"active", "updating_password", "PASSWORD"},
		{"active", "rebuilding", "REBUILD"},
		{"active", "rebuild_block_device_mapping", "REBUILD"},
		{"active", "rebuild_spawning", "REBUILD"},
		{"active", "migrating", "MIGRATING"},
		{"active", "resize_prep", "RESIZE"},
		{"active", "resize_migrating", "RESIZE"},
		{"active", "resize_migrated", "RESIZE"},
		{"active", "resize_finish", "RESIZE"},
		{"building", "spawning", "BUILD"},
		{"stopped", "", "SHUTOFF"},
		{"stopped", "powering-on", "SHUTOFF"},
		{"stopped", "rebooting_hard", "SHUTOFF"},
		{"stopped", "resize_prep", "RESIZE"},
		{"stopped", "rebuilding", "REBUILD"},
		{"resized", "", "VERIFY_RESIZE"},
		{"resized", "resize_reverting", "REVERT_RESIZE"},
		{"paused", "", "PAUSED"},
		{"paused", "migrating", "MIGRATING"},
		{"suspended", "", "SUSPENDED"},
		{"rescued", "", "RESCUE"},
		{"error", "", "ERROR"},
		{"error", "rebuild_spawning", "REBUILD"},
		{"error", "deleting", "ERROR"},
		{"deleted", "", "DELETED"},
		{"soft-delete", "", "SOFT_DELETED"},
		{"shelved", "", "SHELVED"},
		{"shelved_offloaded", "", "SHELVED_OFFLOADED"},
		{"", "", "UNKNOWN"},
		{"haunted", "rebooting", "UNKNOWN"},
	} {
		require.Equal(t, c.status, compute.Status(c.vm, c.task), "%s/%s", c.vm, c.task)
	}
}

func TestStatusKeys(t *testing.T) {
	t.Parallel()
	for _, vm := range allVMStates {
		for _, task := range someTasks {
			status := compute.Status(vm, task)
			switch status {
			case "ACTIVE", "BUILD", "REBUILD", "RESIZE", "VERIFY_RESIZE", "MIGRATING":
				require.True(t, compute.ShowsProgress(status), status)
			default:
				require.False(t, compute.ShowsProgress(status), status)
			}
			require.Equal(t, status == "ERROR" || status == "DELETED", compute.ShowsFault(status), status)
		}
	}
}

// A list filtered by status must hold exactly the servers that show it.
func TestStatesOfInvertsStatus(t *testing.T) {
	t.Parallel()
	matches := func(status string, vm compute.VMState, task compute.TaskState) bool {
		for _, m := range compute.StatesOf(status) {
			if m.VM != vm {
				continue
			}
			listed := false
			for _, other := range m.Tasks {
				listed = listed || other == task
			}
			return listed != m.Default
		}
		return false
	}
	for _, vm := range allVMStates {
		for _, task := range someTasks {
			for _, status := range []string{"ACTIVE", "SHUTOFF", "REBOOT", "HARD_REBOOT", "REBUILD", "RESIZE", "ERROR", "BUILD", "MIGRATING", "PASSWORD"} {
				require.Equal(t, compute.Status(vm, task) == status, matches(status, vm, task), "%s/%s as %s", vm, task, status)
			}
		}
	}
	require.Empty(t, compute.StatesOf("NO_SUCH_STATUS"))
	require.Empty(t, compute.StatesOf(""))
}
