package durable

import (
	"context"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
)

// pulse repeats an activity's last heartbeat while the activity itself is
// silent, so that a blocking call does not look like a dead worker. Heartbeats
// are also how an activity learns that it was cancelled.
type pulse struct {
	interceptor.ActivityOutboundInterceptorBase
	mu      sync.Mutex
	details []any
}

// RecordHeartbeat tells with a context that does not end: the SDK sends what it holds back with the
// one that it was told first, and cancels the activity where that has ended, though it was of a
// part of the work alone.
func (p *pulse) RecordHeartbeat(ctx context.Context, details ...any) {
	p.mu.Lock()
	p.details = details
	p.mu.Unlock()
	p.Next.RecordHeartbeat(context.WithoutCancel(ctx), details...)
}

// start beats until the returned function is called. An activity without a
// heartbeat timeout (a local one) is left alone.
func (p *pulse) start(ctx context.Context) func() {
	info := activity.GetInfo(ctx)
	if info.IsLocalActivity || info.HeartbeatTimeout == 0 {
		return func() {}
	}
	// What an earlier attempt reported stays in sight until this one reports.
	var last converter.RawValue
	if activity.HasHeartbeatDetails(ctx) && activity.GetHeartbeatDetails(ctx, &last) == nil {
		p.details = []any{last}
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(info.HeartbeatTimeout / 4)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				p.mu.Lock()
				details := p.details
				p.mu.Unlock()
				p.Next.RecordHeartbeat(context.WithoutCancel(ctx), details...) // also while it cleans up after a cancel
			}
		}
	}()
	return func() {
		close(done)
		<-ended // no beat after the end
	}
}
