package compute

// Notifications are the event types of what is told about an operation, as Nova names
// them (SH-24): of its start, of its success, and of any other end.
type Notifications struct{ Start, End, Error string }

// notifications gives those of an action on a server: instance.NAME.start, .end and .error.
func notifications(name string) Notifications {
	prefix := "instance." + name
	return Notifications{Start: prefix + ".start", End: prefix + ".end", Error: prefix + ".error"}
}

// ServerUpdate is what an update of a server's row has changed, as the database records it for
// instance.update. Of a server that is new, what was before is empty.
type ServerUpdate struct {
	OldVMState   VMState     `json:"old_vm_state"`
	VMState      VMState     `json:"vm_state"`
	OldTaskState TaskState   `json:"old_task_state"`
	TaskState    TaskState   `json:"task_state"`
	PowerState   PowerState  `json:"power_state"`
	OldName      string      `json:"old_name"`
	Name         string      `json:"name"`
	Operation    OperationID `json:"operation"` // "": none made it
}
