package compute

// OpCreateBackup is the kind of a createBackup.
const OpCreateBackup OperationKind = "createBackup"

// CreateBackup makes an image of a server and removes the oldest ones of its type
// (EE-22).
var CreateBackup = declare(Action[SnapshotArguments]{Facts: Facts{
	Kind:          OpCreateBackup,
	Transition:    Transition{Task: TaskBackup, From: snapshotStates},
	EvenLocked:    true,
	Notifications: notifications("snapshot"),
}})
