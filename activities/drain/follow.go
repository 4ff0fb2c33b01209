package drain

import (
	"cmp"
	"context"
	"slices"

	"strongroom/compute"
	"strongroom/schema"
	"strongroom/schema/fence"
)

// follow looks at the servers that are under way, and gives how many still are.
func (p *pass) follow(ctx context.Context) (moving int, err error) {
	rows, err := p.q.DrainUnderWay(ctx, p.op.ID)
	if err != nil {
		return 0, fence.Unavailable(err)
	}
	for _, row := range rows {
		state := row.State
		if row.ChildState.Settled() {
			if state, err = p.next(ctx, row); err != nil {
				return moving, err
			}
		}
		if state.UnderWay() {
			moving++
		}
	}
	return moving, nil
}

// next goes on with a server whose operation has ended.
func (p *pass) next(ctx context.Context, row schema.DrainUnderWayRow) (state compute.DrainState, err error) {
	var begun *compute.Operation
	err = p.owned(ctx, func(q *schema.Queries) error {
		begun, state = nil, ""
		// Another pass may have gone on with it.
		now, err := q.DrainUnderWay(ctx, p.op.ID)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(now, func(r schema.DrainUnderWayRow) bool { return r.ServerID == row.ServerID })
		if i < 0 {
			return nil
		}
		if state = now[i].State; now[i].Child != row.Child {
			return nil
		}
		s, err := schema.LoadServer(ctx, q, row.ServerID)
		if err != nil {
			return err
		}
		if s.Former != nil && s.Former.Operation == row.Child && row.ChildState == compute.OperationSucceeded {
			state = compute.DrainConfirming
			begun, err = p.begin(ctx, q, s, state, compute.Departure{Facts: compute.ConfirmResize.Facts, Arguments: compute.None{}})
			return err
		}
		there, err := p.isThere(ctx, q, row.ServerID)
		if err != nil || there && s.TaskState != compute.TaskNone { // a delete, say
			return err
		}
		out := schema.PutDrainedParams{OperationID: p.op.ID, ServerID: row.ServerID, Child: row.Child, State: compute.DrainMoved}
		if there {
			out.State = compute.DrainFailed
			out.Message = compute.ShortReason(cmp.Or(row.ChildFailure, row.ChildMessage, "it is still on the host"))
		}
		state = out.State
		return q.PutDrained(ctx, out)
	})
	if err == nil {
		p.launch(ctx, begun)
	}
	return state, err
}

// isThere reports whether the host that is drained has something of a server. One that was
// deleted meanwhile has left.
func (p *pass) isThere(ctx context.Context, q *schema.Queries, id compute.ServerID) (bool, error) {
	return q.IsOnHost(ctx, schema.IsOnHostParams{ServerID: id.UUID, HostID: *p.op.SubjectID})
}
