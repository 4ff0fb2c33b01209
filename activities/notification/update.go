package notification

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"strongroom/compute"
	"strongroom/schema"
)

// StateChange says of which changes of a server's states instance.update tells both ends, as
// Nova's notify_on_state_change does. Of any other change both are the present ones. "": there is
// no instance.update.
type StateChange string

// The changes of states that are told.
const (
	VMStateChange        StateChange = "vm_state"
	VMAndTaskStateChange StateChange = "vm_and_task_state"
)

// Configure has the database record the changes of servers in the outbox, or not, as w wants it.
func (w *Writer) Configure(ctx context.Context, q *schema.Queries) error {
	return q.TellServerUpdates(ctx, w != nil && w.StateChange != "")
}

// body makes the message of a row of the outbox that says what changed. pgx.ErrNoRows: the server's row
// is gone.
func (w *Writer) body(ctx context.Context, q *schema.Queries, row schema.Notification) (string, error) {
	s, err := w.load(ctx, q, *row.ServerID)
	if err != nil {
		return "", err
	}
	if s.operation, err = q.GetOperation(ctx, row.Change.Operation); err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return "", err
	}
	s.now = row.CreatedAt
	return event{row.EventType, row.Priority, s.update(*row.Change, w.StateChange)}.message(s, row.ID)
}

// update is InstanceUpdatePayload 2.1. As in Nova's, a state that there was none of before is told as the new
// one, and a former name only where no change of states is told.
func (s subject) update(change compute.ServerUpdate, told StateChange) object {
	s.server.VMState, s.server.TaskState, s.server.PowerState, s.server.Name = change.VMState, change.TaskState, change.PowerState, change.Name
	data := s.instance()
	oldState, oldTask, oldName := change.VMState, change.TaskState, ""
	switch {
	case change.OldVMState != change.VMState, told == VMAndTaskStateChange && change.OldTaskState != change.TaskState:
		oldState, oldTask = cmp.Or(change.OldVMState, oldState), cmp.Or(change.OldTaskState, oldTask)
	case change.OldName != change.Name:
		oldName = change.OldName
	}
	data["state_update"] = versioned("InstanceStateUpdatePayload", "1.0", map[string]any{
		"old_state": oldState, "state": change.VMState, "old_task_state": orNull(oldTask), "new_task_state": orNull(change.TaskState),
	})
	now := s.now.UTC()
	month := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC) // Nova's default audit period
	data["audit_period"] = versioned("AuditPeriodPayload", "1.0", map[string]any{
		"audit_period_beginning": seconds(&month), "audit_period_ending": seconds(&now),
	})
	data["old_display_name"], data["tags"] = orNull(oldName), append([]string{}, s.server.Tags...)
	return versioned("InstanceUpdatePayload", "2.1", data)
}
