package outbox

import (
	"context"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"

	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema"
)

// What one pass of Repair takes: operations that have not been touched for idleSeconds,
// at most repairPage of them.
const (
	idleSeconds = 10
	repairPage  = 500
)

// Executions starts executions and finds them (durable.Starter).
type Executions interface {
	Starter
	FindExecution(context.Context, compute.Operation) (state durable.ExecutionState, found bool, err error)
	HasRun(context.Context, compute.Operation) (bool, error)
}

// Repairer repairs what a row in PostgreSQL and an execution in Temporal disagree about.
type Repairer struct {
	Pool       *pgxpool.Pool
	Executions Executions
	// Lost settles an operation whose execution is gone.
	Lost   func(context.Context, compute.Operation) error
	Logger *slog.Logger
}

// Repaired counts what a pass did.
type Repaired struct {
	Started int `json:"started"`
	Closed  int `json:"closed"`
}

// Repair makes one pass: it starts operations that were accepted and never started, and
// settles those whose execution is gone. It cancels those that lost their server, so that they undo what
// they did at once, whatever they wait for; a delete that did takes its own time. So it does with live migrations
// that are to be aborted before they touch their guest, of which Temporal was not told at once. Operations that never started come first, then
// those checked least recently, so that a backlog larger than a page starves none (A5).
func (r *Repairer) Repair(ctx context.Context) (Repaired, error) {
	var out Repaired
	q := schema.New(r.Pool)
	rows, err := q.OpenOperations(ctx, schema.OpenOperationsParams{Seconds: idleSeconds, Most: repairPage})
	if err != nil {
		return out, compute.Errorf(compute.Unavailable, "the database: %w", err)
	}
	for _, row := range rows {
		op := row.Operation.Operation()
		if err := r.repair(ctx, q, op, row.Superseded && op.Kind != compute.OpDelete || row.Aborted, &out); err != nil {
			r.Logger.WarnContext(ctx, "repair: will try again", "operation", op.ID, "on", op.On().String(), "error", err)
		}
		if err := q.NoteLook(ctx, op.ID); err != nil {
			return out, compute.Errorf(compute.Unavailable, "the database: %w", err)
		}
	}
	return out, ctx.Err()
}

func (r *Repairer) repair(ctx context.Context, q *schema.Queries, op compute.Operation, cancel bool, out *Repaired) error {
	state, found, err := r.Executions.FindExecution(ctx, op)
	switch {
	case err != nil:
		return err
	case found && state == durable.Running:
		if cancel {
			if err := r.Executions.CancelExecution(ctx, op); err != nil {
				return err
			}
		}
		return q.TouchOperation(ctx, op.ID)
	case op.State == compute.OperationAccepted && !found:
		// What a restored, older database has as accepted was begun after the backup. To do
		// it again would do it to what was made of the server since (M8).
		if ran, err := r.Executions.HasRun(ctx, op); err != nil {
			return err
		} else if ran {
			break
		}
		if err := r.Executions.Start(ctx, op); err != nil {
			return err
		}
		out.Started++
		r.Logger.InfoContext(ctx, "repair: started an accepted operation", "operation", op.ID, "kind", op.Kind, "on", op.On().String())
		return q.TouchOperation(ctx, op.ID)
	}
	// It ran and its execution ended without settling it: somebody terminated
	// it, or Temporal lost it. The ledger still knows what it made; the owner's
	// delete, or the audit, clears that.
	out.Closed++
	r.Logger.ErrorContext(ctx, "repair: closing an operation whose execution is gone", "operation", op.ID, "kind", op.Kind, "on", op.On().String())
	return r.Lost(ctx, op)
}
