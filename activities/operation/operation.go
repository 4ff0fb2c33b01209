// Package operation looks after operations as a whole: it starts those
// without an execution, finds out when something may be removed, and cancels one for a
// delete.
package operation

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"strongroom/activities/ledger"
	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
	"strongroom/durable/outbox"
)

// Activities act on operations.
type Activities struct {
	Pool    *pgxpool.Pool
	Starter durable.Starter
	Record  *record.Activities
	Logger  *slog.Logger
	// ImageKeys are looked after beside the watch; nil: they are not.
	ImageKeys ImageKeys
	// Shares are looked at beside the watch; nil: they are not.
	Shares Shares
	// Ports are looked at beside the watch; nil: they are not.
	Ports Ports
	// Seals are kept up to date by the watch; nil: they are not.
	Seals Seals
	// Retention is how long the database keeps deleted servers; 0: for ever.
	Retention time.Duration
}

// ImageKeys looks after the keys of images (imagekey.Watch). It may take its time: the image
// store may be slow.
type ImageKeys interface {
	Adopt(ctx context.Context) error
	Pass(ctx context.Context) error
}

// Shares looks at the shares of servers (sharewatch.Watch). It may take its time: the shared file
// systems service may be slow.
type Shares interface {
	Pass(ctx context.Context) error
}

// Ports looks at the ports of servers that have changed (portwatch.Watch). It may take its time: the network service
// may be slow.
type Ports interface {
	Pass(ctx context.Context) error
}

// Seals keeps what is sealed in the database under the present key (credential.Store).
type Seals interface {
	Reseal(ctx context.Context) error
}

// Register registers the activities under their names.
func (a *Activities) Register(r durable.Registry) {
	CancelRunning.Register(r, durable.NoResult(a.CancelRunning))
	Watch.Register(r, a.Watch)
	Sweep.Register(r, func(ctx context.Context, _ SweepInput) (durable.None, error) {
		_, err := a.Sweep(ctx)
		return durable.None{}, err
	})
}

// Sweep makes one pass over the open operations (outbox.Repairer). It is the activity
// operation.Sweep.
func (a *Activities) Sweep(ctx context.Context) (outbox.Repaired, error) {
	r := outbox.Repairer{Pool: a.Pool, Executions: a.Starter, Lost: a.SettleLost, Logger: a.Logger}
	return r.Repair(ctx)
}

// SettleLost ends an operation whose execution is gone, and says what clears what it left: its server, if it has one, shows
// ERROR.
func (a *Activities) SettleLost(ctx context.Context, op compute.Operation) error {
	end := record.SettleInput{
		OperationInput: durable.OperationInput{Operation: op.ID, Server: op.ServerID, Subject: op.Subject},
		State:          compute.OperationFailed, Message: lost + clears[op.On().Kind],
	}
	if op.On().Kind == compute.OwnerServer {
		end.VMState, end.Fault = compute.VMError, &compute.Fault{Code: 500, Message: end.Message, Created: time.Now().UTC()}
	}
	return a.Record.Settle(ctx, end)
}

const lost = "The operation was terminated from outside."

// clears says, by what the operation was at work on, what clears what it left. Other operations leave it to the audit.
var clears = map[compute.OwnerKind]string{
	compute.OwnerServer: " Delete the server to clear what it left.",
	compute.OwnerHost:   " Ask for it again: it goes on from where it was.",
	compute.OwnerVolume: " Ask for it again, with strongroom host secure-state: that goes on from where it was, and clears what it left.",
}

func (a *Activities) isDue(ctx context.Context) (bool, error) {
	return (&ledger.Activities{Pool: a.Pool}).IsDue(ctx)
}
