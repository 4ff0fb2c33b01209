package compute

// OpStop is the kind of a stop.
const OpStop OperationKind = "stop"

// Stop shuts a server down.
var Stop = declare(Action[None]{Facts: Facts{
	Kind:          OpStop,
	Transition:    Transition{Task: TaskPoweringOff, From: []VMState{VMActive, VMError}},
	Notifications: notifications("power_off"),
}})
