package operation

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"

	"strongroom/compute"
	"strongroom/durable"
)

// CancelRunning cancels a server's running operation for its delete. It succeeds once no
// operation of the server runs and the last one is undone; until then each attempt fails
// and is retried, so that no activity slot is held while it waits (A3).
var CancelRunning = durable.Activity[compute.ServerID, durable.None]{
	Name: "operation.CancelRunning", Queue: durable.ControlQueue,
	Summary: func(compute.ServerID) string { return "cancel the running operation" },
}

// How soon CancelRunning is tried again.
const (
	cancelSoon = 250 * time.Millisecond
	cancelLate = 10 * time.Second
)

// CancelRunning is the activity operation.CancelRunning. It never terminates an operation.
func (a *Activities) CancelRunning(ctx context.Context, server compute.ServerID) error {
	ended, err := a.Starter.Cancel(ctx, server)
	if err != nil || ended {
		return err
	}
	wait := cancelLate
	if n := activity.GetInfo(ctx).Attempt; n < 7 {
		wait = min(cancelSoon<<(n-1), cancelLate)
	}
	return again{compute.Errorf(compute.Unavailable, "the running operation of server %s has not ended", server), wait}
}

// again is an error that says when to try again.
type again struct {
	error
	after time.Duration
}

func (e again) Unwrap() error { return e.error }

// RetryAfter becomes the retry delay (durable.Boundary).
func (e again) RetryAfter() time.Duration { return e.after }
