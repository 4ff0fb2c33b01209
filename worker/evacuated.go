package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/interceptor"
	"golang.org/x/sync/errgroup"

	"strongroom/compute"
	"strongroom/worker/gateway"
)

const (
	// evictEvery is how long a host may work without having asked which of its servers were
	// evacuated. A server is evacuated once its host was silent for longer.
	evictEvery = compute.HostTimeout / 2
	// evictTime bounds one try to ask, and to stop what must not run.
	evictTime = 20 * time.Second
	// mostEvicted is how many guests are stopped side by side.
	mostEvicted = 16
)

// Eviction stops the guests of servers that were evacuated from this host while it was down, so
// that none runs twice. As a worker interceptor it lets no activity begin before that, when the
// host was away: cut off, suspended, or stopped with its guests going on.
type Eviction struct {
	interceptor.WorkerInterceptorBase
	Evacuated func(ctx context.Context) ([]gateway.Evacuated, error)
	Evict     func(ctx context.Context, server compute.ServerID, since time.Time) error

	running sync.Mutex
	asked   atomic.Pointer[time.Time] // when that began which left no such guest
}

// Run asks, and stops what must not run.
func (e *Eviction) Run(ctx context.Context) error {
	e.running.Lock()
	defer e.running.Unlock()
	return e.run(ctx)
}

func (e *Eviction) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, evictTime)
	defer cancel()
	begin := time.Now()
	servers, err := e.Evacuated(ctx)
	if err != nil {
		return fmt.Errorf("which servers left this host while it was down: %w", err)
	}
	// One whose guest does not stop must not keep the others running.
	failed := make([]error, len(servers))
	var all errgroup.Group
	all.SetLimit(mostEvicted)
	for i, s := range servers {
		all.Go(func() error {
			if err := e.Evict(ctx, s.Server, s.Since); err != nil {
				failed[i] = fmt.Errorf("server %s was evacuated from this host and may run here still: %w", s.Server, err)
			}
			return nil
		})
	}
	_ = all.Wait()
	if err := errors.Join(failed...); err != nil {
		return err
	}
	e.asked.Store(&begin)
	return nil
}

// ensure is Run, unless that was done a moment ago.
func (e *Eviction) ensure(ctx context.Context) error {
	if e.isFresh() {
		return nil
	}
	e.running.Lock()
	defer e.running.Unlock()
	if e.isFresh() {
		return nil
	}
	return e.run(ctx)
}

// isFresh looks at the clock on the wall, too: the other one stands still while a machine is
// suspended.
func (e *Eviction) isFresh() bool {
	asked, now := e.asked.Load(), time.Now()
	return asked != nil && max(now.Sub(*asked), now.Round(0).Sub(asked.Round(0))) < evictEvery
}

// InterceptActivity lets an activity begin once none runs of the servers that were evacuated.
func (e *Eviction) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	a := &evictionInbound{all: e}
	a.Next = next
	return a
}

type evictionInbound struct {
	interceptor.ActivityInboundInterceptorBase
	all *Eviction
}

// ExecuteActivity fails with Unavailable where it cannot be known, so that the work is tried
// again.
func (a *evictionInbound) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	if err := a.all.ensure(ctx); err != nil {
		return nil, compute.Errorf(compute.Unavailable, "this host was away: %w", err)
	}
	return a.Next.ExecuteActivity(ctx, in)
}
