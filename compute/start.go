package compute

// OpStart is the kind of a start.
const OpStart OperationKind = "start"

// Start boots a stopped server.
var Start = declare(Action[None]{Facts: Facts{
	Kind:       OpStart,
	Transition: Transition{Task: TaskPoweringOn, From: []VMState{VMStopped}},
	Boots:      true,
}})
