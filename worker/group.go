package worker

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"go.temporal.io/sdk/client"
	sdk "go.temporal.io/sdk/worker"
)

// Worker is an SDK worker, as far as a Group needs it.
type Worker interface {
	Start() error
	Stop()
}

// Group is the SDK workers of one process, one for each task queue. They start and
// end together: where one cannot go on, the process ends with its error, for a
// process that polls only some of its queues looks alive and is not.
type Group struct {
	Name   string
	Logger *slog.Logger

	workers []Worker
	once    sync.Once
	failed  chan error
}

// NewGroup makes a group without workers.
func NewGroup(name string, logger *slog.Logger) *Group {
	return &Group{Name: name, Logger: logger, failed: make(chan error, 1)}
}

// New adds a worker of a task queue.
func (g *Group) New(c client.Client, queue string, o sdk.Options) sdk.Worker {
	o.OnFatalError = func(err error) { g.Fail(fmt.Errorf("queue %s: %w", queue, err)) }
	w := sdk.New(c, queue, o)
	g.Add(w)
	return w
}

// Add adds a worker that calls Fail when it cannot go on.
func (g *Group) Add(w Worker) { g.workers = append(g.workers, w) }

// Fail ends Run with an error; the first one counts. It does not wait for the end.
func (g *Group) Fail(err error) { g.once.Do(func() { g.failed <- err }) }

// Run starts the workers and lets them work until ctx ends, then until linger
// returns, if there is one; linger's context ends when a worker cannot go on. Then
// it drains them, all at once. The error is that of a worker that did not start or
// could not go on.
func (g *Group) Run(ctx context.Context, linger func(context.Context)) error {
	for i, w := range g.workers {
		if err := w.Start(); err != nil {
			stop(g.workers[:i])
			return fmt.Errorf("starting the %s: %w", g.Name, err)
		}
	}
	g.Logger.InfoContext(ctx, "worker is ready", "worker", g.Name)
	err := g.wait(ctx, linger)
	g.Logger.InfoContext(ctx, "worker drains", "worker", g.Name)
	stop(g.workers)
	if err != nil {
		return fmt.Errorf("the %s cannot go on: %w", g.Name, err)
	}
	return nil
}

func (g *Group) wait(ctx context.Context, linger func(context.Context)) error {
	select {
	case <-ctx.Done():
	case err := <-g.failed:
		return err
	}
	if linger == nil {
		return nil
	}
	lingering, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		linger(lingering)
	}()
	select {
	case <-done:
		return nil
	case err := <-g.failed:
		cancel()
		<-done
		return err
	}
}

// stop drains workers side by side: one that drained after another would still take
// work that it has no time for.
func stop(workers []Worker) {
	var all sync.WaitGroup
	for _, w := range workers {
		all.Go(w.Stop)
	}
	all.Wait()
}
