package domain

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"
)

// giveUp is how a guest that runs is asked to give a device up. One that is still booting does not hear the
// first request.
type giveUp struct {
	phase   string // of the heartbeats
	timeout time.Duration
	again   time.Duration // after which it is asked once more
	kept    error         // for one that has it after the time-out
}

// await calls look until the guest does not have the device, each time with whether it is to be asked for it.
func (g giveUp) await(ctx context.Context, look func(ask bool) (has bool, err error)) error {
	begin, asked := time.Now(), time.Time{}
	for {
		ask := time.Since(asked) >= g.again
		has, err := look(ask)
		switch waited := time.Since(begin); {
		case err != nil || !has:
			return err
		case waited >= g.timeout:
			return g.kept
		case ask:
			asked = time.Now()
			if activity.IsActivity(ctx) {
				activity.RecordHeartbeat(ctx, Progress{Phase: g.phase, Done: int64(waited.Seconds()), Total: int64(g.timeout.Seconds())})
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pollEvery):
		}
	}
}
