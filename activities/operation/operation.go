// Package operation looks after operations as a whole: it starts the ones that
// were committed but never started, closes the ones whose execution is gone,
// and makes room for a delete.
package operation

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"

	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema"
)

// The registered names of the activities; they run on the control queue.
const (
	CancelRunning = "operation.CancelRunning"
	Sweep         = "operation.Sweep"
)

// Activities act on operations.
type Activities struct {
	Pool    *pgxpool.Pool
	Starter durable.Starter
	Record  *record.Activities
	Logger  *slog.Logger
}

// CancelRunning is the activity operation.CancelRunning: when it ends, no other
// operation of the server is running and what it did is undone.
func (a *Activities) CancelRunning(ctx context.Context, server compute.ServerID) error {
	return a.Starter.CancelRunning(ctx, server)
}

// idleSeconds is how long an open operation may go unlooked-at.
const idleSeconds = 10

// SweepResult counts what a sweep did.
type SweepResult struct {
	Started int `json:"started"`
	Closed  int `json:"closed"`
}

// Sweep is the activity operation.Sweep: it repairs the dual write of a row in
// PostgreSQL and an execution in Temporal.
func (a *Activities) Sweep(ctx context.Context) (SweepResult, error) {
	var out SweepResult
	rows, err := schema.New(a.Pool).OpenOperations(ctx, idleSeconds)
	if err != nil {
		return out, compute.Errorf(compute.Unavailable, "the database: %w", err)
	}
	for _, row := range rows {
		if err := a.repair(ctx, record.Operation(row), &out); err != nil {
			a.Logger.WarnContext(ctx, "sweep: will try again", "operation", row.ID, "server", row.ServerID, "error", err)
		}
	}
	return out, ctx.Err()
}

func (a *Activities) repair(ctx context.Context, op compute.Operation, out *SweepResult) error {
	run, found, err := a.Starter.Look(ctx, op)
	switch {
	case err != nil:
		return err
	case found && run == durable.Running:
		return schema.New(a.Pool).TouchOperation(ctx, op.ID)
	case op.State == compute.OperationAccepted:
		if err := a.Starter.Start(ctx, op); err != nil {
			return err
		}
		out.Started++
		a.Logger.InfoContext(ctx, "sweep: started an accepted operation", "operation", op.ID, "kind", op.Kind, "server", op.ServerID)
		return schema.New(a.Pool).TouchOperation(ctx, op.ID)
	}
	// It ran and its execution ended without settling it: somebody terminated
	// it, or Temporal lost it. The ledger still knows what it made; the owner's
	// delete, or the audit, clears that.
	out.Closed++
	a.Logger.ErrorContext(ctx, "sweep: closing an operation whose execution is gone", "operation", op.ID, "kind", op.Kind, "server", op.ServerID)
	return a.Record.Settle(ctx, record.SettleInput{
		OperationInput: durable.OperationInput{Operation: op.ID, Server: op.ServerID},
		State:          compute.OperationFailed, Message: lost, VMState: compute.VMError,
		Fault: &compute.Fault{Code: 500, Message: lost, Created: time.Now().UTC()},
	})
}

const lost = "The operation was terminated from outside. Delete the server to clear what it left."

// Register registers the activities under their names.
func (a *Activities) Register(r worker.ActivityRegistry) {
	r.RegisterActivityWithOptions(a.CancelRunning, activity.RegisterOptions{Name: CancelRunning})
	r.RegisterActivityWithOptions(a.Sweep, activity.RegisterOptions{Name: Sweep})
}
