package drain

import (
	"context"
	"encoding/json"
	"time"

	"strongroom/compute"
	"strongroom/durable/outbox"
	"strongroom/schema"
	"strongroom/schema/fence"
)

// beginMore begins to move servers, and reports whether some are to be moved later.
func (p *pass) beginMore(ctx context.Context, moving int) (more bool, err error) {
	rows, err := p.q.ServersToDrain(ctx, schema.ServersToDrainParams{HostID: *p.op.SubjectID, OperationID: p.op.ID, Most: mostLooked})
	if err != nil || len(rows) == 0 { // the host may be deleted
		return false, fence.Unavailable(err)
	}
	at, err := p.q.HostCondition(ctx, schema.HostConditionParams{ID: hostOf(p.op), HostTimeout: compute.HostTimeout.Seconds()})
	if err != nil {
		return false, fence.Unavailable(err)
	}
	for _, row := range rows {
		if row.Busy || at.Down || at.Stale || moving >= p.asked.Concurrency {
			return true, nil // those that follow are no readier
		}
		state, err := p.take(ctx, row.ID)
		if err != nil {
			return true, err
		}
		if state.UnderWay() {
			moving++
		}
		more = more || state == "" || state.UnderWay()
	}
	return more || len(rows) == mostLooked, nil
}

// take takes a server up: an operation is to move it, or it is left where it is. "": later.
func (p *pass) take(ctx context.Context, id compute.ServerID) (state compute.DrainState, err error) {
	var begun *compute.Operation
	err = p.owned(ctx, func(q *schema.Queries) error {
		begun, state = nil, ""
		// Another pass may have taken it up, or others, or somebody may have cancelled.
		if free, err := p.mayTake(ctx, q, id); err != nil || !free {
			return err
		}
		s, err := schema.LoadServer(ctx, q, id)
		if err != nil {
			return err
		}
		how, err := compute.DrainMove(s, p.asked.Cold)
		if err == nil {
			err = schema.MayBegin(ctx, q, how.Facts, id)
		}
		if compute.Is(err, compute.Conflict) {
			state = compute.DrainLeft
			return q.PutDrained(ctx, schema.PutDrainedParams{OperationID: p.op.ID, ServerID: id, State: state, Message: compute.ShortReason(err.Error())})
		}
		if err != nil {
			return err
		}
		if begun, err = p.begin(ctx, q, s, compute.DrainMoving, how); begun != nil {
			state = compute.DrainMoving
		}
		return err
	})
	if err == nil {
		p.launch(ctx, begun)
	}
	return state, err
}

func (p *pass) mayTake(ctx context.Context, q *schema.Queries, id compute.ServerID) (bool, error) {
	op, err := q.GetOperation(ctx, p.op.ID)
	if err != nil {
		return false, err
	}
	asked, err := argumentsOf(op)
	if err != nil || asked.Cancelled {
		return false, err
	}
	moving, err := q.DrainUnderWay(ctx, p.op.ID)
	if err != nil || len(moving) >= asked.Concurrency {
		return false, err
	}
	taken, err := q.IsDrained(ctx, schema.IsDrainedParams{OperationID: p.op.ID, ServerID: id})
	return !taken, err
}

// begin gives a server to an operation that moves or confirms it, as the API does, with nobody's
// token: keys are read by what its owner delegated, or with strongroom's own roles. An operator's
// drain goes through a lock, as an administrator's request does. nil: somebody else was first.
func (p *pass) begin(ctx context.Context, q *schema.Queries, s compute.Server, state compute.DrainState, how compute.Departure) (*compute.Operation, error) {
	arguments, err := json.Marshal(how.Arguments)
	if err != nil {
		return nil, err
	}
	op := compute.Operation{
		ID:       compute.OperationID("req-" + p.op.ID.Derive(string(how.Kind)+"/"+s.ID.String()).String()),
		ServerID: s.ID, Kind: how.Kind, State: compute.OperationAccepted, Credential: compute.MemberCredential(s.ProjectID),
		Arguments: arguments, AcceptedAt: time.Now(),
	}
	rows, err := q.TakeServer(ctx, schema.TakeServerParams{
		ID: s.ID, Task: how.Transition.Task, OperationID: op.ID, FromVmState: s.VMState, FromTaskState: compute.TaskNone, ThroughLock: true,
	})
	if err != nil || rows == 0 {
		return nil, err
	}
	if err := outbox.Accept(ctx, q, op, nil); err != nil {
		return nil, err
	}
	return &op, q.PutDrained(ctx, schema.PutDrainedParams{OperationID: p.op.ID, ServerID: s.ID, State: state, Child: op.ID})
}
