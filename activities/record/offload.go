package record

import (
	"context"
	"errors"

	"strongroom/compute"
	"strongroom/durable/outbox"
	"strongroom/schema"
	"strongroom/schema/fence"
)

// mostDue is how many servers BeginOffloads and BeginConfirms take, at most.
const mostDue = 20

// BeginOffloads gives shelved servers whose time on their host is over
// (api.shelved_offload_time) to operations that offload them. These are still to be started.
func (a *Activities) BeginOffloads(ctx context.Context) ([]compute.Operation, error) {
	rows, err := schema.New(a.Pool).DueOffloads(ctx, mostDue)
	if err != nil {
		return nil, fence.Unavailable(err)
	}
	var due []dueServer
	for _, row := range rows {
		due = append(due, dueServer{row.ID, row.ProjectID})
	}
	return a.beginDue(ctx, dueAction{compute.ShelveOffload.Facts, compute.VMShelved, (*schema.Queries).PostponeOffload}, due)
}

// BeginConfirms gives servers whose time to be reverted is over (api.resize_confirm_window) to
// operations that confirm them. These are still to be started.
func (a *Activities) BeginConfirms(ctx context.Context) ([]compute.Operation, error) {
	rows, err := schema.New(a.Pool).DueConfirms(ctx, mostDue)
	if err != nil {
		return nil, fence.Unavailable(err)
	}
	var due []dueServer
	for _, row := range rows {
		due = append(due, dueServer{row.ID, row.ProjectID})
	}
	return a.beginDue(ctx, dueAction{compute.ConfirmResize.Facts, compute.VMResized, (*schema.Queries).PostponeConfirm}, due)
}

// dueServer is a server whose time for something has come.
type dueServer struct {
	id      compute.ServerID
	project string
}

// dueAction is what is done with servers whose time has come.
type dueAction struct {
	compute.Facts
	from compute.VMState
	// postpone says when it is tried again, should it fail.
	postpone func(*schema.Queries, context.Context, compute.ServerID) error
}

func (a *Activities) beginDue(ctx context.Context, action dueAction, due []dueServer) ([]compute.Operation, error) {
	return beginEach(ctx, due, func(s dueServer) (compute.Operation, bool, error) {
		op := ownOperation(action.Kind, s.id, s.project)
		won, err := a.takeDue(ctx, action, op)
		return op, won, err
	})
}

// beginEach begins an operation for each that is due. One that fails, as a row that somebody keeps
// locked, keeps no other waiting: it is tried again, first, the next time.
func beginEach[D any](ctx context.Context, due []D, begin func(D) (op compute.Operation, won bool, err error)) (begun []compute.Operation, failed error) {
	for _, d := range due {
		op, won, err := begin(d)
		if err != nil {
			failed = errors.Join(failed, err)
		} else if won {
			begun = append(begun, op)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return begun, failed
}

func (a *Activities) takeDue(ctx context.Context, action dueAction, op compute.Operation) (won bool, err error) {
	err = a.transaction(ctx, func(q *schema.Queries) error {
		rows, err := q.TakeServer(ctx, schema.TakeServerParams{
			ID: op.ServerID, Task: action.Transition.Task, OperationID: op.ID, FromVmState: action.from,
			FromTaskState: compute.TaskNone, ThroughLock: true,
		})
		won = rows > 0
		if err != nil || !won {
			return err
		}
		if err := action.postpone(q, ctx, op.ServerID); err != nil {
			return err
		}
		return outbox.Accept(ctx, q, op, nil)
	})
	return won && err == nil, err
}
