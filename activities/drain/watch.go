package drain

import (
	"cmp"
	"context"
	"time"

	"go.temporal.io/sdk/activity"

	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema"
	"strongroom/schema/fence"
)

// The defaults of WatchInput.
const (
	watchEvery = time.Second
	watchLimit = time.Hour
)

// WatchInput says how to watch a drain.
type WatchInput struct {
	durable.OperationInput
	Limit time.Duration `json:"limit,omitempty"` // how long; default 1 h
	Every time.Duration `json:"every,omitempty"` // time between two passes; default 1 s
}

// WatchResult says why the watch ended.
type WatchResult struct {
	Done bool `json:"done"` // nothing is under way and nothing more begins; false: ask again
}

// Watch is the activity drain.Watch. A pass that fails is logged, and the next one tries again.
func (a *Activities) Watch(ctx context.Context, in WatchInput) (WatchResult, error) {
	end := time.NewTimer(cmp.Or(in.Limit, watchLimit))
	defer end.Stop()
	tick := time.NewTicker(cmp.Or(in.Every, watchEvery))
	defer tick.Stop()
	for {
		done, err := a.Pass(ctx, in.Operation)
		switch {
		case ctx.Err() != nil:
			return WatchResult{}, ctx.Err()
		case err != nil:
			a.Logger.WarnContext(ctx, "drain: will look again", "operation", in.Operation, "host", in.Subject.ID, "error", err)
		case done:
			return WatchResult{Done: true}, nil
		}
		select {
		case <-ctx.Done():
			return WatchResult{}, ctx.Err()
		case <-activity.GetWorkerStopChannel(ctx): // another one takes over
			return WatchResult{}, nil
		case <-end.C:
			return WatchResult{}, nil
		case <-tick.C:
		}
	}
}

// mostLooked is how many servers a pass looks at, at most.
const mostLooked = 100

// Pass looks once at the servers that a drain moves, and begins to move more as far as its
// concurrency allows. Several at once do what one does. done: nothing is under way, and nothing
// more begins.
func (a *Activities) Pass(ctx context.Context, id compute.OperationID) (done bool, err error) {
	p := pass{Activities: a, q: schema.New(a.Pool)}
	if p.op, err = p.q.GetOperation(ctx, id); err != nil {
		return false, fence.Unavailable(err)
	}
	if p.op.State.Settled() {
		return true, nil
	}
	if p.asked, err = argumentsOf(p.op); err != nil {
		return false, err
	}
	moving, err := p.follow(ctx)
	if err != nil {
		return false, err
	}
	if p.asked.Cancelled {
		return moving == 0, nil
	}
	more, err := p.beginMore(ctx, moving)
	return moving == 0 && !more, err
}

// pass is one look at a drain.
type pass struct {
	*Activities
	q     *schema.Queries
	op    schema.Operation
	asked compute.DrainArguments
}

// owned runs do in a transaction while the drain has not ended. Two passes at once follow each
// other.
func (p *pass) owned(ctx context.Context, do func(*schema.Queries) error) error {
	return fence.Owned(ctx, p.Pool, p.op.ID, compute.ServerID{}, do)
}

// launch starts an operation that was begun, if one was.
func (p *pass) launch(ctx context.Context, begun *compute.Operation) {
	if begun != nil {
		p.Launcher.Launch(ctx, []compute.Operation{*begun})
	}
}
