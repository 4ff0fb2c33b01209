package operation

import (
	"cmp"
	"context"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"

	"strongroom/compute"
	"strongroom/durable"
)

// Watch repairs open operations (Sweep) every few seconds until there is something to
// remove. As one long activity it leaves no execution and no event for each pass (A9).
var Watch = durable.Activity[WatchInput, WatchResult]{
	Name: "operation.Watch", Queue: durable.ControlQueue, Attempt: 24 * time.Hour,
	Summary: func(WatchInput) string { return "watch operations and what waits to be removed" },
}

// Sweep repairs open operations once, while nobody watches.
var Sweep = durable.Activity[SweepInput, durable.None]{
	Name: "operation.Sweep", Queue: durable.ControlQueue,
	Summary: func(SweepInput) string { return "look after open operations" },
}

// SweepInput asks for one pass over the open operations.
type SweepInput struct{}

// The defaults of WatchInput.
const (
	watchEvery = 10 * time.Second
	watchLimit = time.Hour
)

// WatchInput says how to watch.
type WatchInput struct {
	Limit time.Duration `json:"limit,omitempty"` // how long; default 1 h
	Every time.Duration `json:"every,omitempty"` // time between two passes; default 10 s
}

// WatchResult says why the watch ended.
type WatchResult struct {
	Due bool `json:"due"` // something may be removed (ledger.Due); false: its time was up
}

// Watch is the activity operation.Watch. A pass that fails is logged, and the
// next pass tries again. Unavailable: its worker stops, and another one takes over.
func (a *Activities) Watch(ctx context.Context, in WatchInput) (WatchResult, error) {
	end := time.NewTimer(cmp.Or(in.Limit, watchLimit))
	defer end.Stop()
	tick := time.NewTicker(cmp.Or(in.Every, watchEvery))
	defer tick.Stop()
	var beside sync.WaitGroup
	defer beside.Wait()
	work, cancel := untilStop(ctx)
	defer cancel()
	if a.ImageKeys != nil {
		beside.Go(func() { a.watchImageKeys(work, cmp.Or(in.Every, watchEvery)) })
	}
	if a.Shares != nil {
		beside.Go(func() { a.watchBeside(work, "the shares of servers", a.Shares.Pass, cmp.Or(in.Every, watchEvery)) })
	}
	if a.Ports != nil {
		beside.Go(func() { a.watchBeside(work, "the ports of servers", a.Ports.Pass, cmp.Or(in.Every, watchEvery)) })
	}
	for {
		if a.pass(work) {
			return WatchResult{Due: true}, nil
		}
		select {
		case <-work.Done():
			if ctx.Err() != nil {
				return WatchResult{}, ctx.Err()
			}
			return WatchResult{}, again{compute.Errorf(compute.Unavailable, "this worker stops"), time.Millisecond}
		case <-end.C:
			return WatchResult{}, nil
		case <-tick.C:
		}
	}
}

// watchImageKeys looks after the keys of images until ctx ends. It does so beside the passes,
// which must not wait for an image store.
func (a *Activities) watchImageKeys(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	pass := a.ImageKeys.Adopt
	for {
		if err := pass(ctx); err != nil && ctx.Err() == nil {
			a.Logger.WarnContext(ctx, "watch: the keys of images could not be looked after", "error", err)
		} else {
			pass = a.ImageKeys.Pass
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// watchBeside looks at something until ctx ends, beside the passes, which must not wait for the service that has it.
func (a *Activities) watchBeside(ctx context.Context, what string, pass func(context.Context) error, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if err := pass(ctx); err != nil && ctx.Err() == nil {
			a.Logger.WarnContext(ctx, "watch: they could not be looked at", "what", what, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// partLimit bounds each part of a pass: a connection that stands still, or rows that others keep
// locked, must end neither all repair nor the other parts of it.
const partLimit = 30 * time.Second

// pass looks after open operations once and reports whether something may be removed.
func (a *Activities) pass(ctx context.Context) (due bool) {
	for _, part := range []struct {
		of string
		do func(context.Context) error
	}{
		{"operations could not be looked at", func(ctx context.Context) error { _, err := a.Sweep(ctx); return err }},
		{"deleted servers could not be purged", func(ctx context.Context) error { _, err := a.Record.Purge(ctx, a.Retention); return err }},
		{"tokens of consoles could not be forgotten", a.Record.ForgetConsoleTokens},
		{"shelved servers could not be looked at", a.due(a.Record.BeginOffloads)},
		{"servers of restarted hosts could not be looked at", a.due(a.Record.BeginResumes)},
		{"resized servers could not be looked at", a.due(a.Record.BeginConfirms)},
		{"vTPMs could not be looked at", a.due(a.Record.BeginTPMBackups)},
		{"what is sealed in the database could not be sealed anew", a.reseal},
		{"the ledger could not be looked at", func(ctx context.Context) (err error) { due, err = a.isDue(ctx); return err }},
	} {
		a.part(ctx, part.of, part.do)
	}
	return due
}

func (a *Activities) reseal(ctx context.Context) error {
	if a.Seals == nil {
		return nil
	}
	return a.Seals.Reseal(ctx)
}

func (a *Activities) part(ctx context.Context, failed string, do func(context.Context) error) {
	ctx, cancel := context.WithTimeout(ctx, partLimit)
	defer cancel()
	if err := do(ctx); err != nil {
		a.Logger.WarnContext(ctx, "watch: a part of a pass failed", "part", failed, "error", err)
	}
}

// untilStop gives a context that also ends when the worker begins to stop.
func untilStop(ctx context.Context) (context.Context, context.CancelFunc) {
	stopping := activity.GetWorkerStopChannel(ctx)
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-stopping:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}
