package record

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"strongroom/activities/ledger"
	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema"
	"strongroom/schema/fence"
)

// The ends of operations.
var (
	// Settle ends an operation and gives the server back.
	Settle = durable.Activity[SettleInput, durable.None]{
		Name: "record.Settle", Queue: durable.RecordQueue,
		Summary: func(in SettleInput) string { return stepSummary("settle as "+string(in.State), in.Close, nil) },
	}
	// FinishDelete ends a delete.
	FinishDelete = durable.Activity[FinishDeleteInput, durable.None]{
		Name: "record.FinishDelete", Queue: durable.RecordQueue,
		Summary: func(in FinishDeleteInput) string { return stepSummary("mark the server deleted", in.Close, nil) },
	}
)

// SettleInput ends an operation and gives the server back.
type SettleInput struct {
	durable.OperationInput
	Close    *Close                 `json:"close,omitempty"` // the last step
	State    compute.OperationState `json:"state"`
	Message  string                 `json:"message,omitempty"`
	VMState  compute.VMState        `json:"vm_state"`
	Power    compute.PowerState     `json:"power_state"`
	Fault    *compute.Fault         `json:"fault,omitempty"` // nil: none, or the one that a server left in ERROR has
	Progress int                    `json:"progress"`
	Launched bool                   `json:"launched,omitempty"`
	// GuestRan: the operation may have started the guest, whatever it is now.
	GuestRan bool `json:"guest_ran,omitempty"`
	// HandedOver are things that are the user's from here on: no undo and no delete of
	// the server removes them.
	HandedOver []compute.Thing `json:"handed_over,omitempty"`
	// Rescue is the disk that the server is rescued with from here on.
	Rescue *compute.Disk `json:"rescue,omitempty"`
	// Moved: it has moved with its guest.
	Moved bool `json:"moved,omitempty"`
	// Shares is what became of the server's shares.
	Shares []ShareChange `json:"shares,omitempty"`
	// Move is what the server is from here on, until that is confirmed or reverted.
	Move *Move `json:"move,omitempty"`
}

// Settle is the activity record.Settle. Running again after it took effect is a success.
// If another operation has taken over the server, an operation that is to succeed gets
// Superseded, and any other one is settled as cancelled.
func (a *Activities) Settle(ctx context.Context, in SettleInput) error {
	e := ending{OperationInput: in.OperationInput, close: in.Close, state: in.State, message: in.Message}
	return a.end(ctx, e, func(q *schema.Queries) error {
		if err := ledger.HandOver(ctx, q, in.HandedOver); err != nil || in.Server == (compute.ServerID{}) {
			return err
		}
		if in.Fault == nil && in.VMState == compute.VMError {
			was, err := q.GetServer(ctx, in.Server)
			if err != nil {
				return err
			}
			in.Fault = was.Fault
		}
		if in.Rescue != nil {
			if err := attach(ctx, q, in.Server, *in.Rescue); err != nil {
				return err
			}
		}
		// QEMU pauses a guest by itself, too: it has booted all the same.
		runs := in.Power == compute.PowerRunning || in.Power == compute.PowerPaused
		if in.Move != nil {
			if err := in.Move.save(ctx, q, in.OperationInput); err != nil {
				return err
			}
		} else if runs {
			if err := setUnbooted(ctx, q, in.Server, false); err != nil {
				return err
			}
		}
		if runs {
			if err := noteEndorsement(ctx, q, in.OperationInput, in.State != compute.OperationSucceeded); err != nil {
				return err
			}
			if err := setNewTPM(ctx, q, in.Server, false); err != nil {
				return err
			}
		}
		if runs || in.GuestRan {
			if err := q.NoteTPMRuns(ctx, in.Server); err != nil {
				return err
			}
		}
		if in.State != compute.OperationSucceeded && len(in.Shares) == 0 {
			op, err := q.GetOperation(ctx, in.Operation)
			if err != nil {
				return err
			}
			in.Shares = Unsettled(op.Kind, op.Arguments)
		}
		if err := changeShares(ctx, q, in.Server, in.Shares); err != nil {
			return err
		}
		if in.Moved {
			if err := q.SetMigrationStatus(ctx, schema.SetMigrationStatusParams{Status: liveCompleted, OperationID: in.Operation}); err != nil {
				return err
			}
		}
		if in.VMState == compute.VMShelvedOffloaded {
			if err := leaveHost(ctx, q, in.OperationInput); err != nil {
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

// FinishDeleteInput ends a delete.
type FinishDeleteInput struct {
	durable.OperationInput
	Close *Close `json:"close,omitempty"` // the last step
}

// FinishDelete is the activity record.FinishDelete: the end of a delete. The server's row
// is marked deleted and its claims are given back. Conflict: something of it is
// still on the ledger and not waiting.
func (a *Activities) FinishDelete(ctx context.Context, in FinishDeleteInput) error {
	e := ending{OperationInput: in.OperationInput, close: in.Close, state: compute.OperationSucceeded}
	return a.end(ctx, e, func(q *schema.Queries) error {
		owner := compute.ServerOwner(in.Server)
		left, err := q.ThingsOf(ctx, schema.ThingsOfParams{OwnerKind: owner.Kind, OwnerID: owner.ID})
		if err != nil {
			return err
		}
		left = slices.DeleteFunc(left, func(t schema.ThingsOfRow) bool { return t.Ledger.State == compute.ThingWaiting })
		if len(left) > 0 {
			return compute.Errorf(compute.Conflict, "server %s still has %d things that are neither removed nor waiting", in.Server, len(left))
		}
		if err := q.DeleteClaims(ctx, in.Server); err != nil {
			return err
		}
		if err := clearSecrets(ctx, q, in.Server); err != nil {
			return err
		}
		if err := clearPorts(ctx, q, in.Server); err != nil {
			return err
		}
		if err := q.DetachShares(ctx, in.Server); err != nil {
			return err
		}
		if err := q.DeleteEndorsements(ctx, in.Server); err != nil {
			return err
		}
		if err := q.DeleteSecretSums(ctx, in.Server); err != nil {
			return err
		}
		if err := q.CompleteEvacuations(ctx, schema.CompleteEvacuationsParams{Servers: []uuid.UUID{in.Server.UUID}}); err != nil {
			return err
		}
		_, err = q.SettleServerDeleted(ctx, schema.SettleServerDeletedParams{ID: in.Server, CurrentOperation: in.Operation})
		return err
	})
}

// ending is how an operation ends.
type ending struct {
	durable.OperationInput
	close   *Close
	state   compute.OperationState
	message string
}

// end settles the operations row, closes its events and gives the server back, in
// one transaction.
func (a *Activities) end(ctx context.Context, e ending, giveBack func(*schema.Queries) error) error {
	return a.closing(ctx, e.Operation, e.close, func() error {
		return a.transaction(ctx, func(q *schema.Queries) error { return a.write(ctx, q, e, giveBack) })
	})
}

func (a *Activities) write(ctx context.Context, q *schema.Queries, e ending, giveBack func(*schema.Queries) error) error {
	// The lock first: an earlier attempt may be about to commit, and its effect must not
	// be mistaken for another operation's.
	owned, err := fence.LockIfOwned(ctx, q, e.Operation, e.Server)
	if err != nil {
		return err
	}
	op, err := q.GetOperation(ctx, e.Operation)
	if err != nil || op.State == e.state { // written already; what it released may have been made again since, by another operation
		return err
	}
	if err := closeStep(ctx, q, e.Operation, e.close); err != nil || op.State.Settled() {
		return err
	}
	was, err := a.Notifications.ShareOf(ctx, q, op)
	if err != nil {
		return err
	}
	switch {
	case owned:
		if err := giveBack(q); err != nil {
			return err
		}
	case e.state == compute.OperationSucceeded:
		return Superseded() // the operation is undone and then settled as cancelled
	default:
		e.state, e.message = compute.OperationCancelled, fence.Message
		if err := cutOff(ctx, q, op); err != nil {
			return err
		}
	}
	return a.settle(ctx, q, e.Operation, e.state, e.message, was)
}

// settle ends an operation's row and trail, tells of it, and wipes the token that it acted with. was is the share that it was about.
func (a *Activities) settle(ctx context.Context, q *schema.Queries, op compute.OperationID, state compute.OperationState, message string, was *schema.ServerShare) error {
	if err := q.LockCredentialOf(ctx, op); err != nil {
		return err
	}
	result := eventSuccess
	if state != compute.OperationSucceeded {
		result = eventError
		if err := q.FailEvacuation(ctx, op); err != nil {
			return err
		}
		if err := q.UndecideMigration(ctx, op); err != nil {
			return err
		}
		if err := q.EndMigration(ctx, schema.EndMigrationParams{OperationID: op, Cancelled: state == compute.OperationCancelled}); err != nil {
			return err
		}
	}
	if err := q.CloseEvents(ctx, schema.CloseEventsParams{OperationID: op, Result: &result}); err != nil {
		return err
	}
	params := schema.SettleOperationParams{ID: op, State: state}
	if message != "" {
		params.Message = &message
	}
	if settled, err := q.SettleOperation(ctx, params); err != nil {
		return err
	} else if settled > 0 {
		if err := a.Notifications.Ended(ctx, q, op, was); err != nil {
			return err
		}
	}
	return q.WipeCredentialOf(ctx, op)
}
