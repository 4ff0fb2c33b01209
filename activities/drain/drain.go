// Package drain moves all servers away from a host: it begins operations on them, a few at a
// time, follows each to its end and keeps on record what became of every server.
package drain

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"strongroom/compute"
	"strongroom/durable"
)

// The activities.
var (
	// Begin begins a drain.
	Begin = durable.Activity[durable.OperationInput, BeginResult]{
		Name: "drain.Begin", Queue: durable.RecordQueue,
		Summary: func(durable.OperationInput) string { return "begin to drain the host" },
	}
	// Watch begins moves and follows them. As one long activity it leaves no event for each
	// look at the record (A9); all that it knows is on record, so any worker goes on with it.
	Watch = durable.Activity[WatchInput, WatchResult]{
		Name: "drain.Watch", Queue: durable.ControlQueue, Attempt: 24 * time.Hour,
		Summary: func(WatchInput) string { return "move the host's servers away" },
	}
	// Cancel lets what is under way end, and nothing more begin.
	Cancel = durable.Activity[durable.OperationInput, durable.None]{
		Name: "drain.Cancel", Queue: durable.RecordQueue,
		Summary: func(durable.OperationInput) string { return "begin no more moves" },
	}
	// End ends a drain.
	End = durable.Activity[durable.OperationInput, EndResult]{
		Name: "drain.End", Queue: durable.RecordQueue,
		Summary: func(durable.OperationInput) string { return "end the drain" },
	}
)

// Activities are the activities of drains.
type Activities struct {
	Pool     *pgxpool.Pool
	Launcher Launcher
	Logger   *slog.Logger
}

// Launcher starts the executions of committed operations; outbox.Launcher is one. Those that it
// does not start are by the janitor.
type Launcher interface {
	Launch(context.Context, []compute.Operation)
}

// Register registers the activities under their names.
func (a *Activities) Register(r durable.Registry) {
	Begin.Register(r, a.Begin)
	Watch.Register(r, a.Watch)
	Cancel.Register(r, durable.NoResult(a.Cancel))
	End.Register(r, a.End)
}
