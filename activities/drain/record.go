package drain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema"
	"strongroom/schema/fence"
)

// BeginResult is what a drain works with. Superseded says that it has ended already.
type BeginResult struct {
	Superseded bool         `json:"superseded,omitempty"`
	Host       durable.Host `json:"host"`
}

// Begin is the activity drain.Begin. Run again it gives the same.
func (a *Activities) Begin(ctx context.Context, in durable.OperationInput) (out BeginResult, err error) {
	out.Host.ID = compute.HostID{UUID: in.Subject.ID}
	err = fence.Transaction(ctx, a.Pool, func(q *schema.Queries) error {
		rows, err := q.BeginOperation(ctx, in.Operation)
		if err != nil || rows == 0 {
			out.Superseded = err == nil
			return err
		}
		out.Host.Name, err = q.HostName(ctx, out.Host.ID)
		return err
	})
	return out, err
}

// Cancel is the activity drain.Cancel.
func (a *Activities) Cancel(ctx context.Context, in durable.OperationInput) error {
	_, err := schema.New(a.Pool).CancelDrain(ctx, in.Operation)
	return fence.Unavailable(err)
}

// EndResult is how a drain ended.
type EndResult struct {
	State   compute.OperationState `json:"state"`
	Message string                 `json:"message,omitempty"`
}

// End is the activity drain.End: the drain succeeded if nothing of any server is left on the
// host, which takes no new servers until it is enabled. Run again it gives the same.
func (a *Activities) End(ctx context.Context, in durable.OperationInput) (out EndResult, err error) {
	err = fence.Transaction(ctx, a.Pool, func(q *schema.Queries) error {
		if _, err := q.LockOperation(ctx, in.Operation); err != nil { // an earlier attempt may be about to commit
			return err
		}
		op, err := q.GetOperation(ctx, in.Operation)
		if err != nil {
			return err
		}
		if op.State.Settled() {
			out = EndResult{State: op.State, Message: op.Operation().Message}
			return nil
		}
		asked, err := argumentsOf(op)
		if err != nil {
			return err
		}
		host := hostOf(op)
		here, err := q.ServersHere(ctx, &host)
		if err != nil {
			return err
		}
		left := int(here.Servers)
		out = ended(left, asked.Cancelled)
		if err := q.RenameDrain(ctx, schema.RenameDrainParams{
			ID: host, Was: compute.DrainReason(op.ID), Reason: compute.DrainEnd(op.ID, left, asked.Cancelled),
		}); err != nil {
			return err
		}
		_, err = q.SettleOperation(ctx, schema.SettleOperationParams{ID: op.ID, State: out.State, Message: optional(out.Message)})
		return err
	})
	return out, err
}

func ended(left int, cancelled bool) EndResult {
	switch {
	case cancelled:
		return EndResult{compute.OperationCancelled, fmt.Sprintf("cancelled, servers left: %d", left)}
	case left > 0:
		return EndResult{compute.OperationFailed, fmt.Sprintf("servers left: %d", left)}
	}
	return EndResult{State: compute.OperationSucceeded}
}

func hostOf(op schema.Operation) compute.HostID { return compute.HostID{UUID: *op.SubjectID} }

func argumentsOf(op schema.Operation) (in compute.DrainArguments, err error) {
	if err := json.Unmarshal(op.Arguments, &in); err != nil || in.Check() != nil {
		return in, compute.Errorf(compute.Invalid, "operation %s has no arguments of a drain", op.ID)
	}
	return in, nil
}

func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// newest gives the newest drain of a host; found is false if there was none.
func newest(ctx context.Context, q *schema.Queries, host compute.HostID) (op schema.Operation, found bool, err error) {
	op, err = q.DrainOfHost(ctx, host.UUID)
	if errors.Is(err, pgx.ErrNoRows) {
		return op, false, nil
	}
	return op, err == nil, err
}
