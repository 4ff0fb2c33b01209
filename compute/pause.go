package compute

// The kinds of a pause and of its end.
const (
	OpPause   OperationKind = "pause"
	OpUnpause OperationKind = "unpause"
)

// Pause lets a server's guest stand still: it keeps its memory and executes nothing.
var Pause = declare(Action[None]{Facts: Facts{
	Kind:          OpPause,
	ReadsNoKey:    true,
	Transition:    Transition{Task: TaskPausing, From: []VMState{VMActive}},
	Notifications: notifications("pause"),
}})

// Unpause lets a paused guest go on where it was.
var Unpause = declare(Action[None]{Facts: Facts{
	Kind:          OpUnpause,
	Transition:    Transition{Task: TaskUnpausing, From: []VMState{VMPaused}},
	Resumes:       true,
	ReadsNoKey:    true,
	Notifications: notifications("unpause"),
}})
