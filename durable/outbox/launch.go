package outbox

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"strongroom/compute"
)

// How long Launch tries to start executions. Those that it does not start are started by
// Repair.
const (
	launchWait  = time.Second      // that the caller is kept waiting
	launchLimit = 10 * time.Second // for all operations of one call
	endingWait  = 2 * time.Second  // for the end of the operation before
	endingStep  = 50 * time.Millisecond
)

// Starter starts and cancels the executions of committed operations; durable.Starter is one.
type Starter interface {
	// Start starts op's execution; starting one that runs is a success. Conflict:
	// another operation with the same lock is at its very end, call again.
	Start(ctx context.Context, op compute.Operation) error
	// CancelExecution cancels op's own execution, where it runs.
	CancelExecution(ctx context.Context, op compute.Operation) error
}

// Launcher starts the executions of committed operations.
type Launcher struct {
	Starter Starter
	Logger  *slog.Logger

	running sync.WaitGroup
}

// Launch starts the executions of committed operations. One that could not be started is
// logged and no error: Repair starts it.
func (l *Launcher) Launch(ctx context.Context, operations []compute.Operation) {
	l.detached(ctx, func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, launchLimit)
		defer cancel()
		for _, op := range operations {
			if err := l.start(ctx, op); err != nil {
				l.Logger.WarnContext(ctx, "starting an operation: it will be started later",
					"operation", op.ID, "kind", op.Kind, "on", op.On().String(), "error", err)
			}
		}
	})
}

// Cancel cancels the execution of an operation of which it is written that it is to be. One that
// could not be cancelled is logged and no error: Repair cancels it.
func (l *Launcher) Cancel(ctx context.Context, op compute.Operation) {
	l.detached(ctx, func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, launchLimit)
		defer cancel()
		if err := l.Starter.CancelExecution(ctx, op); err != nil {
			l.Logger.WarnContext(ctx, "cancelling an operation: it will be cancelled later", "operation", op.ID, "kind", op.Kind, "on", op.On().String(), "error", err)
		}
	})
}

// detached runs do to its end, also when ctx is cancelled, and waits for it at most
// launchWait.
func (l *Launcher) detached(ctx context.Context, do func(context.Context)) {
	ctx = context.WithoutCancel(ctx)
	done := make(chan struct{})
	l.running.Go(func() {
		defer close(done)
		do(ctx)
	})
	select {
	case <-done:
	case <-time.After(launchWait):
	}
}

// Wait waits for all that detached still runs, or for the end of the context. Call it
// when no more calls of detached can come.
func (l *Launcher) Wait(ctx context.Context) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.running.Wait()
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	}
}

// start starts one execution. A Conflict is the end of the operation before: its
// server was given back in the record a moment before its execution closes.
func (l *Launcher) start(ctx context.Context, op compute.Operation) error {
	until := time.Now().Add(endingWait)
	for {
		err := l.Starter.Start(ctx, op)
		if !compute.Is(err, compute.Conflict) || time.Now().After(until) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(endingStep):
		}
	}
}
