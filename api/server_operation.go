package api

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"strongroom/api/fault"
	"strongroom/compute"
	"strongroom/schema"
)

// progressPatience bounds how long an answer waits for how far an operation is.
const progressPatience = 2 * time.Second

// listOperations shows the newest operations with their steps.
func (a *API) listOperations(r *Request) (any, error) {
	row, err := a.seekServer(r, ruleOperations)
	if err != nil {
		return nil, err
	}
	operations, err := a.db.ServerOperations(r.Context(), schema.ServerOperationsParams{ServerID: row.Server.ID, Most: MaxLimit})
	if err != nil {
		return nil, err
	}
	listed := make([]schema.Operation, len(operations))
	for i, op := range operations {
		listed[i] = schema.Operation(op)
	}
	views, err := a.viewOperations(r, row, listed)
	if err != nil {
		return nil, err
	}
	return map[string]any{"operations": views}, nil
}

func (a *API) showOperation(r *Request) (any, error) {
	row, op, err := a.operationOf(r, ruleOperations)
	if err != nil {
		return nil, err
	}
	views, err := a.viewOperations(r, row, []schema.Operation{op})
	if err != nil {
		return nil, err
	}
	return map[string]any{"operation": views[0]}, nil
}

// cancelOperation cancels an operation that runs: what it has made is undone, unless it is past the
// point from which on it only goes forward. A delete is never cancelled, and what an administrator of another project asked for, or nobody (a
// drain's move, a repair), by administrators alone (S5). The start after a restart of its host is theirs.
func (a *API) cancelOperation(r *Request) (any, error) {
	_, op, err := a.operationOf(r, ruleCancelOperation)
	switch {
	case err != nil:
		return nil, err
	case op.ProjectID != r.ProjectID() && !r.IsAdmin():
		return nil, fault.Forbidden("Operation %s was asked for by somebody of another project.", op.ID)
	case op.UserID == "" && op.Kind != compute.OpStart && !r.IsAdmin():
		return nil, fault.Forbidden("Nobody of this project asked for operation %s: administrators alone cancel it.", op.ID)
	case op.Kind == compute.OpDelete:
		return nil, fault.Conflict("Operation %s is a delete, which cannot be cancelled.", op.ID)
	case op.State.Settled():
		return nil, fault.Conflict("Operation %s has ended: it is %s.", op.ID, op.State)
	case op.State == compute.OperationAccepted:
		return nil, fault.Conflict("Operation %s has not begun yet. Try again later.", op.ID)
	}
	return nil, a.config.Operations.CancelExecution(r.Context(), op.Operation())
}

// operationOf finds the operation of a server that the path names.
func (a *API) operationOf(r *Request, rule string) (row serverRow, op schema.Operation, err error) {
	if row, err = a.seekServer(r, rule); err != nil {
		return row, op, err
	}
	id := compute.OperationID(r.Param("operation"))
	op, err = a.db.ServerOperation(r.Context(), schema.ServerOperationParams{ID: id, ServerID: row.Server.ID})
	if errors.Is(err, pgx.ErrNoRows) {
		err = fault.NotFound("Operation %s could not be found.", id)
	}
	return row, op, err
}

// viewOperations shows operations of one server.
func (a *API) viewOperations(r *Request, row serverRow, operations []schema.Operation) ([]map[string]any, error) {
	ids := make([]string, len(operations))
	for i, op := range operations {
		ids[i] = string(op.ID)
	}
	events, err := a.db.OperationEvents(r.Context(), ids)
	if err != nil {
		return nil, err
	}
	steps := map[compute.OperationID][]map[string]any{}
	see := eventView{version: r.Version, project: row.Server.ProjectID, traces: r.IsAdmin(), details: r.IsAdmin()}
	for i := len(events) - 1; i >= 0; i-- { // in the order in which they happened
		e := events[i]
		steps[e.OperationID] = append(steps[e.OperationID], see.event(e))
	}
	out := []map[string]any{}
	for _, op := range operations {
		view := viewOperation(op, steps[op.ID])
		view["progress"] = a.progress(r, op)
		out = append(out, view)
	}
	return out, nil
}

// progress is how far an operation is, null where nothing is known of that. At most two of a server run, of which
// one is its delete, so that few are asked for.
func (a *API) progress(r *Request, op schema.Operation) any {
	if op.State != compute.OperationRunning {
		return nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), progressPatience)
	defer cancel()
	p, found, err := a.config.Operations.Progress(ctx, op.Operation())
	if err != nil {
		a.config.Logger.WarnContext(r.Context(), "the progress of an operation is not known", "operation", op.ID, "error", err)
	}
	if err != nil || !found {
		return nil
	}
	return map[string]any{"phase": p.Phase, "done": p.Done, "total": p.Total, "unit": p.Unit()}
}

func viewOperation(op schema.Operation, steps []map[string]any) map[string]any {
	if steps == nil {
		steps = []map[string]any{}
	}
	return map[string]any{
		"id": op.ID, "kind": op.Kind, "state": op.State, "message": op.Message, "user_id": op.UserID, "project_id": op.ProjectID,
		"accepted_at": microseconds(&op.AcceptedAt), "started_at": microseconds(op.StartedAt),
		"finished_at": microseconds(op.FinishedAt), "events": steps,
	}
}
