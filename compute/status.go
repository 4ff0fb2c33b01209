package compute

import "slices"

// Statuses of the API that code asks for by name; Status gives these and the
// others of the table.
const (
	StatusActive    = "ACTIVE"
	StatusBuild     = "BUILD"
	StatusDeleted   = "DELETED"
	StatusError     = "ERROR"
	StatusMigrating = "MIGRATING"
	StatusRebuild   = "REBUILD"
	StatusResize    = "RESIZE"
	StatusShutoff   = "SHUTOFF"
	StatusUnknown   = "UNKNOWN"
	StatusVerify    = "VERIFY_RESIZE"
)

// states is how one vm_state shows itself: by default, and while a task runs.
type states struct {
	plain string
	tasks map[TaskState]string
}

// statusTable is the table of compute-api A.4.
var statusTable = map[VMState]states{
	VMActive: {StatusActive, merge(rebuildTasks, resizeTasks, map[TaskState]string{
		TaskRebooting: "REBOOT", TaskRebootPending: "REBOOT", TaskRebootStarted: "REBOOT",
		TaskRebootingHard: "HARD_REBOOT", TaskRebootPendingHard: "HARD_REBOOT", TaskRebootStartedHard: "HARD_REBOOT",
		"updating_password": "PASSWORD", "migrating": StatusMigrating,
	})},
	VMBuilding:         {plain: StatusBuild},
	VMStopped:          {StatusShutoff, merge(rebuildTasks, resizeTasks)},
	VMResized:          {StatusVerify, map[TaskState]string{TaskResizeReverting: "REVERT_RESIZE"}},
	VMPaused:           {"PAUSED", map[TaskState]string{"migrating": StatusMigrating}},
	VMSuspended:        {plain: "SUSPENDED"},
	VMRescued:          {plain: "RESCUE"},
	VMError:            {StatusError, rebuildTasks},
	VMDeleted:          {plain: StatusDeleted},
	VMSoftDelete:       {plain: "SOFT_DELETED"},
	VMShelved:          {plain: "SHELVED"},
	VMShelvedOffloaded: {plain: "SHELVED_OFFLOADED"},
}

var rebuildTasks = map[TaskState]string{
	TaskRebuilding:      StatusRebuild,
	TaskRebuildDevices:  StatusRebuild,
	TaskRebuildSpawning: StatusRebuild,
}

var resizeTasks = map[TaskState]string{
	TaskResizePrep:      StatusResize,
	TaskResizeMigrating: StatusResize,
	TaskResizeMigrated:  StatusResize,
	TaskResizeFinish:    StatusResize,
}

func merge(parts ...map[TaskState]string) map[TaskState]string {
	whole := map[TaskState]string{}
	for _, part := range parts {
		for task, status := range part {
			whole[task] = status
		}
	}
	return whole
}

// Status is what a user sees of a server's states: ACTIVE, BUILD, HARD_REBOOT …
// UNKNOWN for a vm_state that is none of the API's.
func Status(vm VMState, task TaskState) string {
	row, known := statusTable[vm]
	if !known {
		return StatusUnknown
	}
	if status, overridden := row.tasks[task]; overridden {
		return status
	}
	return row.plain
}

// StatesOf gives every vm_state that can show the status, each with the tasks
// under which it does or does not: the status filter of a list.
// Nothing is returned for a text that is no status.
func StatesOf(status string) []StatusMatch {
	var matches []StatusMatch
	for _, vm := range vmStates {
		row := statusTable[vm]
		match := StatusMatch{VM: vm, Default: row.plain == status}
		for task, shown := range row.tasks {
			if (shown == status) != match.Default {
				match.Tasks = append(match.Tasks, task)
			}
		}
		if match.Default || len(match.Tasks) > 0 {
			slices.Sort(match.Tasks)
			matches = append(matches, match)
		}
	}
	return matches
}

// StatusMatch says when a vm_state shows a status: under every task but Tasks
// if Default, else under one of Tasks only.
type StatusMatch struct {
	VM      VMState
	Default bool
	Tasks   []TaskState
}

var vmStates = []VMState{
	VMActive, VMBuilding, VMPaused, VMSuspended, VMStopped, VMRescued, VMResized,
	VMSoftDelete, VMDeleted, VMError, VMShelved, VMShelvedOffloaded,
}

// ShowsProgress reports whether a server of the status has the key "progress".
func ShowsProgress(status string) bool {
	switch status {
	case StatusActive, StatusBuild, StatusRebuild, StatusResize, StatusVerify, StatusMigrating:
		return true
	}
	return false
}

// ShowsFault reports whether a server of the status has the key "fault".
func ShowsFault(status string) bool { return status == StatusError || status == StatusDeleted }
