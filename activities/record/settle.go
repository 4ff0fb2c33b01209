package record

import (
	"context"

	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema"
)

// SettleInput ends an operation and gives the server back.
type SettleInput struct {
	durable.OperationInput
	State    compute.OperationState `json:"state"`
	Message  string                 `json:"message,omitempty"`
	VMState  compute.VMState        `json:"vm_state"`
	Power    compute.PowerState     `json:"power_state"`
	Fault    *compute.Fault         `json:"fault,omitempty"`
	Progress int                    `json:"progress"`
	Launched bool                   `json:"launched,omitempty"`
}

// Settle is the activity record.Settle. Running again after it took effect is
// a success; losing the server to another operation is not.
func (a *Activities) Settle(ctx context.Context, in SettleInput) error {
	return a.end(ctx, in.OperationInput, in.State, in.Message, func(q *schema.Queries) (int64, error) {
		return q.SettleServer(ctx, schema.SettleServerParams{
			ID: in.Server, OperationID: in.Operation, VMState: in.VMState, PowerState: in.Power,
			Fault: in.Fault, Progress: int32(in.Progress), Launched: in.Launched,
		})
	})
}

// Bury is the activity record.Bury: the end of a delete. The server's row is
// marked deleted and its claim is given back. Its things must be gone.
func (a *Activities) Bury(ctx context.Context, in durable.OperationInput) error {
	return a.end(ctx, in, compute.OperationSucceeded, "", func(q *schema.Queries) (int64, error) {
		if err := q.DeleteClaim(ctx, in.Server); err != nil {
			return 0, err
		}
		if err := q.ClearServerSecrets(ctx, in.Server); err != nil {
			return 0, err
		}
		return q.SettleServerDeleted(ctx, schema.SettleServerDeletedParams{ID: in.Server, CurrentOperation: in.Operation})
	})
}

// end settles the operations row, closes its events and lets the server go, in
// one transaction. When the server was lost, the operation ends as cancelled.
func (a *Activities) end(ctx context.Context, in durable.OperationInput, state compute.OperationState, message string,
	letGo func(*schema.Queries) (int64, error),
) error {
	lost := false
	err := a.tx(ctx, func(q *schema.Queries) error {
		op, err := q.GetOperation(ctx, in.Operation)
		if err != nil || op.State.Settled() {
			return err
		}
		rows, err := letGo(q)
		if err != nil {
			return err
		}
		result := eventSuccess
		if rows == 0 {
			// A success that lost the race must be undone first and settled then.
			if lost = true; state == compute.OperationSucceeded {
				return nil
			}
			state, message = compute.OperationCancelled, superseded
		}
		if state != compute.OperationSucceeded {
			result = eventError
		}
		if err := q.CloseEvents(ctx, schema.CloseEventsParams{OperationID: in.Operation, Result: &result}); err != nil {
			return err
		}
		settle := schema.SettleOperationParams{ID: in.Operation, State: state}
		if message != "" {
			settle.Message = &message
		}
		_, err = q.SettleOperation(ctx, settle)
		return err
	})
	if err == nil && lost && state == compute.OperationSucceeded {
		return errSuperseded()
	}
	return err
}
