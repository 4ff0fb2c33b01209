package compute

// OpCreateImage is the kind of a createImage.
const OpCreateImage OperationKind = "createImage"

// CreateImage makes an image of a server.
var CreateImage = declare(Action[SnapshotArguments]{Facts: Facts{
	Kind:          OpCreateImage,
	Transition:    Transition{Task: TaskSnapshotPending, From: snapshotStates},
	EvenLocked:    true,
	Notifications: notifications("snapshot"),
}})

// snapshotStates are the vm_states in which an image of a server can be made.
var snapshotStates = []VMState{VMActive, VMStopped, VMPaused, VMSuspended}
