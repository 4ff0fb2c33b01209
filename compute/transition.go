package compute

import (
	"cmp"
	"slices"
)

// Situation is what decides whether an action may begin.
type Situation struct {
	Server   ServerID
	VM       VMState
	Task     TaskState
	Launched bool // it was ACTIVE once: launched_at is set
}

// Transition says from where an action may begin, and what the server does then.
type Transition struct {
	Task TaskState // the server's task_state from the moment the action is accepted

	// From are the vm_states from which it may begin, if the server was active once
	// and has no task_state.
	From []VMState
	// Through are task_states that do not keep it from beginning.
	Through []TaskState
	// Always lets it begin from every state.
	Always bool
}

// Check reports whether the action may begin, as compute-api A.6 has it. The error
// is a Conflict with the text that clients match.
func (f Facts) Check(at Situation) error {
	allowed := f.Transition
	switch {
	case allowed.Always:
		return nil
	case !slices.Contains(allowed.From, at.VM):
		return f.wrongState(at.Server, "vm_state", string(at.VM))
	case at.Task != TaskNone && !slices.Contains(allowed.Through, at.Task):
		return f.wrongState(at.Server, "task_state", string(at.Task))
	case !at.Launched:
		return Errorf(Conflict, "Cannot '%s' an instance which has never been active", cmp.Or(f.Word, string(f.Kind)))
	}
	return nil
}

func (f Facts) wrongState(server ServerID, attribute, value string) error {
	return Errorf(Conflict, "Cannot '%s' instance %s while it is in %s %s", cmp.Or(f.Word, string(f.Kind)), server, attribute, value)
}
