package worker

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"strongroom/worker/gateway"
	"strongroom/worker/watchdog"
)

// LeasedGateway is a gateway of which a host has a lease: it may run guests for as long as it has contact, and
// stops them when it had none for Timeout. The lease counts from when a report was sent that was answered, which
// is before the control plane, by its own clock, heard of the host: where an answer is lost the host stops its guests
// earlier than it must.
type LeasedGateway struct {
	Gateway
	Timeout  time.Duration // of the lease that is taken while a watchdog runs; 0: none is
	Lease    *watchdog.LeaseFiles
	Watchdog watchdog.Heartbeat // of the watchdog that is not this process
	Now      watchdog.Clock
	Logger   *slog.Logger

	mu        sync.Mutex
	last      *gateway.HostReport // that was answered
	unwatched bool                // as it was told last
}

// Report takes the lease, renews it, or releases it. Until one is answered, the shorter of those that the control plane
// may know of the host holds.
func (g *LeasedGateway) Report(ctx context.Context, report gateway.HostReport) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.report(ctx, report)
}

// Release releases the lease, before the worker is stopped in order: guests go on then.
func (g *LeasedGateway) Release(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.Timeout = 0
	if lease, err := g.Lease.Read(); g.last == nil || err == nil && lease.Timeout == 0 {
		return nil
	}
	return g.report(ctx, *g.last)
}

// report numbers the report by the time since the boot: one that comes late, when its sender has long given it
// up, must not undo what a later one said.
func (g *LeasedGateway) report(ctx context.Context, report gateway.HostReport) error {
	now, err := g.Now()
	if err != nil {
		return err
	}
	will := watchdog.Lease{LastContact: now, Timeout: g.timeout(ctx, now)}
	before, err := g.Lease.Read()
	if err != nil { // of one of which nothing is known it can only be said that it is released; the next report takes another one
		will.Timeout = 0
	} else if until := shorter(before, will); until != before {
		if err := g.Lease.Take(until); err != nil {
			g.Logger.ErrorContext(ctx, "the lease of this host cannot be written down, and none is taken: servers are evacuated from it only when it is forced down", "error", err)
			will.Timeout = 0
		}
	}
	report.ReportNumber, report.FenceAfter = int64(now.Since), int32(will.Timeout/time.Second)
	if err := g.Gateway.Report(ctx, report); err != nil {
		return err
	}
	g.last = &report
	g.renew(ctx, will)
	if err := g.Lease.RemoveFormer(); err != nil {
		g.Logger.WarnContext(ctx, "the file of an earlier release's lease cannot be removed", "file", g.Lease.Former, "error", err)
	}
	return nil
}

// Seen says that the host runs.
func (g *LeasedGateway) Seen(ctx context.Context) ([]gateway.AtRest, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now, err := g.Now()
	if err != nil {
		return nil, err
	}
	out, err := g.Gateway.Seen(ctx)
	if err != nil {
		return nil, err
	}
	if lease, err := g.Lease.Read(); err == nil && lease.Timeout > 0 { // a report mends one that cannot be read
		lease.LastContact = now
		g.renew(ctx, lease)
	}
	return out, nil
}

func (g *LeasedGateway) renew(ctx context.Context, lease watchdog.Lease) {
	if err := g.Lease.Renew(lease); err != nil {
		g.Logger.ErrorContext(ctx, "this host has contact, and cannot write it down: its watchdog (strongroom host watchdog) may stop its guests", "error", err)
	}
}

// shorter is the lease that holds while the control plane may know of either: no other one is told of before it is
// written down.
func shorter(before, will watchdog.Lease) watchdog.Lease {
	switch {
	case before.Timeout == 0:
		return will
	case will.Timeout == 0 || will.Timeout >= before.Timeout:
		return before
	}
	return watchdog.Lease{LastContact: before.LastContact, Timeout: will.Timeout}
}

// timeout is that of the lease that the host takes now. The worker stops guests, too, but one that is dead does not:
// a lease needs the other process.
func (g *LeasedGateway) timeout(ctx context.Context, now watchdog.Moment) time.Duration {
	if g.Timeout == 0 {
		return 0
	}
	if beats := g.Watchdog.Beats(now); beats == g.unwatched {
		if g.unwatched = !beats; g.unwatched {
			g.Logger.WarnContext(ctx, "host.fence_after is set and no watchdog runs here (strongroom host watchdog): servers are evacuated from this host only when it is forced down")
		} else {
			g.Logger.InfoContext(ctx, "a watchdog runs here: it stops guests when no gateway answers this host", "seconds", g.Timeout.Seconds())
		}
	}
	if g.unwatched {
		return 0
	}
	return g.Timeout
}
