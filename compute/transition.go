package compute

import "slices"

// Situation is what decides whether an action may begin.
type Situation struct {
	Server   ServerID
	VM       VMState
	Task     TaskState
	Launched bool // it was ACTIVE once: launched_at is set
}

// condition says from where an action may begin.
type condition struct {
	vm       []VMState   // nil: any
	task     []TaskState // nil: any
	launched bool        // only for servers that were active once
}

// idle is the condition on the task of most actions.
var idle = []TaskState{TaskNone}

var conditions = map[OperationKind]condition{
	OpStart:        {vm: []VMState{VMStopped}, task: idle, launched: true},
	OpStop:         {vm: []VMState{VMActive, VMError}, task: idle, launched: true},
	OpCreateImage:  {vm: []VMState{VMActive, VMStopped, VMPaused, VMSuspended}, task: idle, launched: true},
	OpCreateBackup: {vm: []VMState{VMActive, VMStopped, VMPaused, VMSuspended}, task: idle, launched: true},
	OpRebuild:      {vm: []VMState{VMActive, VMStopped, VMError}, task: idle, launched: true},
	OpRescue:       {vm: []VMState{VMActive, VMStopped, VMError}, task: idle, launched: true},
	OpUnrescue:     {vm: []VMState{VMRescued}, task: idle, launched: true},
	// A header is changed beside a guest that runs as well as without one.
	OpRotateKeys: {vm: []VMState{VMActive, VMStopped, VMPaused}, task: idle, launched: true},

	// Delete wins over everything, also over a create that still runs.
	OpDelete:     {},
	OpLock:       {},
	OpUnlock:     {},
	OpResetState: {},
}

var softReboot = condition{vm: []VMState{VMActive}, task: idle, launched: true}

// hardReboot may break into what a guest that hangs keeps waiting (A.6).
var hardReboot = condition{
	vm: []VMState{VMActive, VMStopped, VMPaused, VMSuspended, VMError},
	task: []TaskState{
		TaskNone, TaskRebooting, TaskRebootPending, TaskRebootStarted,
		"resuming", "pausing", "unpausing", "suspending",
	},
	launched: true,
}

// CheckAction reports whether an action may begin, as compute-api A.6 has it.
// hard matters to a reboot only. The error is a Conflict with the text that
// clients match; Invalid for a kind that is no action on a server.
func CheckAction(kind OperationKind, at Situation, hard bool) error {
	allowed, known := conditions[kind]
	if kind == OpReboot {
		allowed, known = softReboot, true
		if hard {
			allowed = hardReboot
		}
	}
	switch {
	case !known:
		return Errorf(Invalid, "There is no such action: %s", kind)
	case allowed.vm != nil && !slices.Contains(allowed.vm, at.VM):
		return wrongState(kind, at.Server, "vm_state", string(at.VM))
	case allowed.task != nil && !slices.Contains(allowed.task, at.Task):
		return wrongState(kind, at.Server, "task_state", string(at.Task))
	case allowed.launched && !at.Launched:
		return Errorf(Conflict, "Cannot '%s' an instance which has never been active", kind)
	}
	return nil
}

func wrongState(kind OperationKind, server ServerID, attribute, value string) error {
	return Errorf(Conflict, "Cannot '%s' instance %s while it is in %s %s", kind, server, attribute, value)
}
