package compute

// OpCreate is the kind of a create.
const OpCreate OperationKind = "create"

// Create makes a server. There is no state from which it begins: the server's row
// comes with it.
var Create = declare(Action[None]{Facts: Facts{
	Kind:          OpCreate,
	Transition:    Transition{Task: TaskScheduling},
	Boots:         true,
	Notifications: notifications("create"),
}})
