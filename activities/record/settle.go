package record

import (
	"context"
	"slices"

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
	Fault    *compute.Fault         `json:"fault,omitempty"` // nil: none, or the one that a server left in ERROR has
	Progress int                    `json:"progress"`
	Launched bool                   `json:"launched,omitempty"`
	// Given are things that are the user's from here on: no undo and no delete of
	// the server takes them back.
	Given []compute.Thing `json:"given,omitempty"`
	// Rescue is the disk that the server is rescued with from here on.
	Rescue *compute.Disk `json:"rescue,omitempty"`
}

// Settle is the activity record.Settle. Running again after it took effect is
// a success. Losing the server to another operation is not, when the operation
// is to succeed; else it ends as cancelled.
func (a *Activities) Settle(ctx context.Context, in SettleInput) error {
	return a.end(ctx, in.OperationInput, in.State, in.Message, func(q *schema.Queries) error {
		if in.Fault == nil && in.VMState == compute.VMError {
			was, err := q.GetServer(ctx, in.Server)
			if err != nil {
				return err
			}
			in.Fault = was.Fault
		}
		if err := give(ctx, q, in.Given); err != nil {
			return err
		}
		if in.Rescue != nil {
			if err := attach(ctx, q, in.Server, *in.Rescue); err != nil {
				return err
			}
		}
		_, err := q.SettleServer(ctx, schema.SettleServerParams{
			ID: in.Server, OperationID: in.Operation, VMState: in.VMState, PowerState: in.Power,
			Fault: in.Fault, Progress: int32(in.Progress), Launched: in.Launched,
		})
		return err
	})
}

// Bury is the activity record.Bury: the end of a delete. The server's row is
// marked deleted and its claim is given back. Conflict: something of it is
// still on the ledger, and not because it waits for a credential or a host.
func (a *Activities) Bury(ctx context.Context, in durable.OperationInput) error {
	return a.end(ctx, in, compute.OperationSucceeded, "", func(q *schema.Queries) error {
		left, err := q.ServerThings(ctx, in.Server)
		if err != nil {
			return err
		}
		left = slices.DeleteFunc(left, func(t schema.Ledger) bool { return t.State == compute.ThingWaiting })
		if len(left) > 0 {
			return compute.Errorf(compute.Conflict, "server %s still has %d things in the world", in.Server, len(left))
		}
		if err := q.DeleteClaim(ctx, in.Server); err != nil {
			return err
		}
		if err := clearSecrets(ctx, q, in.Server); err != nil {
			return err
		}
		_, err = q.SettleServerDeleted(ctx, schema.SettleServerDeletedParams{ID: in.Server, CurrentOperation: in.Operation})
		return err
	})
}

// end settles the operations row, closes its events and lets the server go, in
// one transaction.
func (a *Activities) end(ctx context.Context, in durable.OperationInput, state compute.OperationState, message string,
	letGo func(*schema.Queries) error,
) error {
	return a.tx(ctx, func(q *schema.Queries) error {
		// The lock first: an earlier attempt may be about to commit, and what it
		// did must not look like the loss of the server.
		held, err := hold(ctx, q, in)
		if err != nil {
			return err
		}
		op, err := q.GetOperation(ctx, in.Operation)
		if err != nil || op.State.Settled() {
			return err
		}
		switch {
		case held:
			if err := letGo(q); err != nil {
				return err
			}
		case state == compute.OperationSucceeded:
			return Superseded() // to be undone, and settled then
		default:
			state, message = compute.OperationCancelled, superseded
		}
		return settle(ctx, q, in, state, message)
	})
}

// forsaken is why an image waits that was announced for an operation which never began.
const forsaken = "its operation ended without it"

// settle ends an operation's row and trail, and wipes the token that it acted with. An
// image that it still meant to make, as the api announced, is to be removed.
func settle(ctx context.Context, q *schema.Queries, in durable.OperationInput, state compute.OperationState, message string) error {
	op := in.Operation
	if err := q.LockCredentialOf(ctx, op); err != nil {
		return err
	}
	result := eventSuccess
	if state != compute.OperationSucceeded {
		result = eventError
	}
	if err := q.CloseEvents(ctx, schema.CloseEventsParams{OperationID: op, Result: &result}); err != nil {
		return err
	}
	params := schema.SettleOperationParams{ID: op, State: state}
	if message != "" {
		params.Message = &message
	}
	if _, err := q.SettleOperation(ctx, params); err != nil {
		return err
	}
	if err := q.ForsakeImages(ctx, schema.ForsakeImagesParams{ServerID: in.Server, OperationID: op, Refused: forsaken}); err != nil {
		return err
	}
	return q.WipeCredentialOf(ctx, op)
}
