package compute

// OpDelete is the kind of a delete.
const OpDelete OperationKind = "delete"

// Delete removes a server and everything that it has. It wins over every other
// operation, also over a create that still runs.
var Delete = declare(Action[None]{Facts: Facts{
	Kind:          OpDelete,
	Transition:    Transition{Task: TaskDeleting, Always: true},
	Notifications: notifications("delete"),
}})
