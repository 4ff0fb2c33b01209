package compute

// OpCrashDump is the kind of a crash dump that is triggered.
const OpCrashDump OperationKind = "trigger_crash_dump"

// CrashDump gives a server's guest a non-maskable interrupt, on which its kernel writes a dump
// where the guest is set up for that. The server stays what it is.
var CrashDump = declare(Action[None]{Facts: Facts{
	Kind:          OpCrashDump,
	ReadsNoKey:    true,
	Transition:    Transition{Task: TaskCrashDump, From: []VMState{VMActive, VMPaused, VMRescued, VMError}},
	Notifications: notifications("trigger_crash_dump"),
}})
