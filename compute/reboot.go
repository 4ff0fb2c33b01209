package compute

// OpReboot is the kind of a reboot.
const OpReboot OperationKind = "reboot"

// Reboot shuts a server down and boots it afresh.
var Reboot = declare(Action[RebootArguments]{
	Facts: Facts{Kind: OpReboot, Transition: softReboot, Boots: true, Notifications: notifications("reboot")},
	Variant: func(in RebootArguments) Transition {
		if in.Hard {
			return hardReboot
		}
		return softReboot
	},
})

// RebootArguments are the arguments of a reboot.
type RebootArguments struct {
	Hard bool `json:"hard"`
}

var softReboot = Transition{Task: TaskRebooting, From: []VMState{VMActive}}

// hardReboot may break into what a guest that hangs keeps waiting (A.6).
var hardReboot = Transition{
	Task: TaskRebootingHard,
	From: []VMState{VMActive, VMStopped, VMPaused, VMSuspended, VMError},
	Through: []TaskState{
		TaskRebooting, TaskRebootPending, TaskRebootStarted,
		TaskResuming, TaskPausing, TaskUnpausing, TaskSuspending,
	},
}
