package compute_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

var server = compute.ServerID{UUID: uuid.MustParse("11111111-2222-4333-8444-555555555555")}

// facts are those of an action; hard matters to a reboot only.
func facts(t *testing.T, kind compute.OperationKind, hard bool) compute.Facts {
	t.Helper()
	action, err := compute.ActionOf(kind)
	require.NoError(t, err)
	if kind == compute.OpReboot {
		return compute.Reboot.With(compute.RebootArguments{Hard: hard})
	}
	return action.Facts
}

func TestCheckAction(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind compute.OperationKind
		hard bool
		vm   compute.VMState
		task compute.TaskState
		text string // "" when it may begin
	}{
		{"start", false, "stopped", "", ""},
		{"start", false, "active", "", "Cannot 'start' instance " + server.String() + " while it is in vm_state active"},
		{"start", false, "stopped", "powering-on", "Cannot 'start' instance " + server.String() + " while it is in task_state powering-on"},
		{"start", false, "error", "", "Cannot 'start' instance " + server.String() + " while it is in vm_state error"},
		{"stop", false, "active", "", ""},
		{"stop", false, "error", "", ""},
		{"stop", false, "stopped", "", "Cannot 'stop' instance " + server.String() + " while it is in vm_state stopped"},
		{"stop", false, "building", "spawning", "Cannot 'stop' instance " + server.String() + " while it is in vm_state building"},
		{"stop", false, "active", "rebooting", "Cannot 'stop' instance " + server.String() + " while it is in task_state rebooting"},
		{"pause", false, "active", "", ""},
		{"pause", false, "paused", "", "Cannot 'pause' instance " + server.String() + " while it is in vm_state paused"},
		{"pause", false, "stopped", "", "Cannot 'pause' instance " + server.String() + " while it is in vm_state stopped"},
		{"pause", false, "rescued", "", "Cannot 'pause' instance " + server.String() + " while it is in vm_state rescued"},
		{"pause", false, "active", "pausing", "Cannot 'pause' instance " + server.String() + " while it is in task_state pausing"},
		{"unpause", false, "paused", "", ""},
		{"unpause", false, "active", "", "Cannot 'unpause' instance " + server.String() + " while it is in vm_state active"},
		{"unpause", false, "paused", "unpausing", "Cannot 'unpause' instance " + server.String() + " while it is in task_state unpausing"},
		{"suspend", false, "active", "", ""},
		{"suspend", false, "paused", "", "Cannot 'suspend' instance " + server.String() + " while it is in vm_state paused"},
		{"suspend", false, "suspended", "", "Cannot 'suspend' instance " + server.String() + " while it is in vm_state suspended"},
		{"suspend", false, "active", "suspending", "Cannot 'suspend' instance " + server.String() + " while it is in task_state suspending"},
		{"resume", false, "suspended", "", ""},
		{"resume", false, "active", "", "Cannot 'resume' instance " + server.String() + " while it is in vm_state active"},
		{"resume", false, "suspended", "resuming", "Cannot 'resume' instance " + server.String() + " while it is in task_state resuming"},
		{"start", false, "suspended", "", "Cannot 'start' instance " + server.String() + " while it is in vm_state suspended"},
		{"reboot", true, "suspended", "", ""},
		{"reboot", true, "active", "suspending", ""},
		{"trigger_crash_dump", false, "active", "", ""},
		{"trigger_crash_dump", false, "paused", "", ""},
		{"trigger_crash_dump", false, "rescued", "", ""},
		{"trigger_crash_dump", false, "error", "", ""},
		{"trigger_crash_dump", false, "stopped", "", "Cannot 'trigger_crash_dump' instance " + server.String() + " while it is in vm_state stopped"},
		{"trigger_crash_dump", false, "active", "rebooting", "Cannot 'trigger_crash_dump' instance " + server.String() + " while it is in task_state rebooting"},
		{"stop", false, "paused", "", "Cannot 'stop' instance " + server.String() + " while it is in vm_state paused"},
		{"start", false, "paused", "", "Cannot 'start' instance " + server.String() + " while it is in vm_state paused"},
		{"reboot", false, "paused", "", "Cannot 'reboot' instance " + server.String() + " while it is in vm_state paused"},
		{"rebuild", false, "active", "", ""},
		{"rebuild", false, "stopped", "", ""},
		{"rebuild", false, "error", "", ""},
		{"rebuild", false, "active", "rebuilding", "Cannot 'rebuild' instance " + server.String() + " while it is in task_state rebuilding"},
		{"rebuild", false, "rescued", "", "Cannot 'rebuild' instance " + server.String() + " while it is in vm_state rescued"},
		{"reboot", false, "active", "", ""},
		{"reboot", false, "stopped", "", "Cannot 'reboot' instance " + server.String() + " while it is in vm_state stopped"},
		{"reboot", false, "active", "rebooting", "Cannot 'reboot' instance " + server.String() + " while it is in task_state rebooting"},
		{"reboot", true, "active", "", ""},
		{"reboot", true, "stopped", "", ""},
		{"reboot", true, "paused", "", ""},
		{"reboot", true, "suspended", "", ""},
		{"reboot", true, "error", "", ""},
		{"reboot", true, "active", "rebooting", ""},
		{"reboot", true, "active", "reboot_pending", ""},
		{"reboot", true, "active", "reboot_started", ""},
		{"reboot", true, "active", "pausing", ""},
		{"reboot", true, "paused", "unpausing", ""},
		{"reboot", true, "active", "suspending", ""},
		{"reboot", true, "suspended", "resuming", ""},
		{"reboot", true, "active", "rebooting_hard", "Cannot 'reboot' instance " + server.String() + " while it is in task_state rebooting_hard"},
		{"reboot", true, "active", "powering-off", "Cannot 'reboot' instance " + server.String() + " while it is in task_state powering-off"},
		{"reboot", true, "rescued", "", "Cannot 'reboot' instance " + server.String() + " while it is in vm_state rescued"},
		{"rescue", false, "active", "", ""},
		{"rescue", false, "stopped", "", ""},
		{"rescue", false, "error", "", ""},
		{"rescue", false, "rescued", "", "Cannot 'rescue' instance " + server.String() + " while it is in vm_state rescued"},
		{"rescue", false, "paused", "", "Cannot 'rescue' instance " + server.String() + " while it is in vm_state paused"},
		{"rescue", false, "active", "rescuing", "Cannot 'rescue' instance " + server.String() + " while it is in task_state rescuing"},
		{"unrescue", false, "rescued", "", ""},
		{"unrescue", false, "active", "", "Cannot 'unrescue' instance " + server.String() + " while it is in vm_state active"},
		{"unrescue", false, "rescued", "unrescuing", "Cannot 'unrescue' instance " + server.String() + " while it is in task_state unrescuing"},
		{"stop", false, "rescued", "", "Cannot 'stop' instance " + server.String() + " while it is in vm_state rescued"},
		{"start", false, "rescued", "", "Cannot 'start' instance " + server.String() + " while it is in vm_state rescued"},
		{"reboot", false, "rescued", "", "Cannot 'reboot' instance " + server.String() + " while it is in vm_state rescued"},
		{"createImage", false, "rescued", "", "Cannot 'createImage' instance " + server.String() + " while it is in vm_state rescued"},
	} {
		err := facts(t, c.kind, c.hard).Check(compute.Situation{Server: server, VM: c.vm, Task: c.task, Launched: true})
		if c.text == "" {
			require.NoError(t, err, "%+v", c)
			continue
		}
		require.EqualError(t, err, c.text)
		require.Equal(t, compute.Conflict, compute.KindOf(err))
	}
}

// Delete wins from every state, and the actions that end in the request do not
// ask for one.
func TestCheckActionAlways(t *testing.T) {
	t.Parallel()
	for _, kind := range []compute.OperationKind{compute.OpDelete, compute.OpLock, compute.OpUnlock, compute.OpResetState} {
		for _, vm := range allVMStates {
			for _, task := range someTasks {
				require.NoError(t, facts(t, kind, false).Check(compute.Situation{Server: server, VM: vm, Task: task}))
			}
		}
	}
}

func TestCheckActionNeverLaunched(t *testing.T) {
	t.Parallel()
	for kind, action := range map[compute.OperationKind]bool{compute.OpStop: false, compute.OpReboot: true} {
		err := facts(t, kind, action).Check(compute.Situation{Server: server, VM: compute.VMError})
		require.EqualError(t, err, "Cannot '"+string(kind)+"' an instance which has never been active")
		require.Equal(t, compute.Conflict, compute.KindOf(err))
	}
}

func TestActionOfUnknown(t *testing.T) {
	t.Parallel()
	_, err := compute.ActionOf("levitate")
	require.EqualError(t, err, "There is no such action: levitate")
	require.Equal(t, compute.Invalid, compute.KindOf(err))
}
