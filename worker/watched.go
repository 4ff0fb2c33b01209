package worker

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"strongroom/worker/gateway"
	"strongroom/worker/watchdog"
)

// Watched is a gateway to which a host promises that it stops its guests when it has had no answer for a
// while. It counts from when a report was sent that was answered, which is before the control plane, by its
// own clock, heard of the host: where an answer is lost the host stops its guests earlier than it must.
type Watched struct {
	Gateway
	After    time.Duration // what is promised while a watchdog looks; 0: nothing
	Note     watchdog.Note
	Watchdog watchdog.Alive // of the watchdog that is not this process
	Now      watchdog.Clock
	Logger   *slog.Logger

	mu        sync.Mutex
	last      *gateway.HostReport // that was answered
	unwatched bool                // as it was told last
}

// Report makes the promise, or takes it back. Until one is answered, the earlier of those that the control plane
// may have of the host holds.
func (w *Watched) Report(ctx context.Context, report gateway.HostReport) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.report(ctx, report)
}

// TakeBack takes the promise back, before the worker is stopped in order: guests go on then.
func (w *Watched) TakeBack(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.After = 0
	if promise, err := w.Note.Read(); w.last == nil || err == nil && promise.After == 0 {
		return nil
	}
	return w.report(ctx, *w.last)
}

func (w *Watched) report(ctx context.Context, report gateway.HostReport) error {
	now, err := w.Now()
	if err != nil {
		return err
	}
	before, err := w.Note.Read()
	if err != nil { // as one that was promised a long time ago: nothing is known of it
		before = watchdog.Promise{After: time.Nanosecond}
	}
	will := watchdog.Promise{Heard: now, After: w.promised(ctx, now)}
	if until := stricter(before, will); until != before {
		if err := w.Note.Write(until); err != nil {
			return err
		}
	}
	report.FenceAfter = int32(will.After / time.Second)
	if err := w.Gateway.Report(ctx, report); err != nil {
		return err
	}
	w.last = &report
	return w.Note.Write(will)
}

// Seen says that the host runs.
func (w *Watched) Seen(ctx context.Context) ([]gateway.AtRest, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now, err := w.Now()
	if err != nil {
		return nil, err
	}
	out, err := w.Gateway.Seen(ctx)
	if err != nil {
		return nil, err
	}
	promise, err := w.Note.Read()
	if err != nil || promise.After == 0 {
		return out, err
	}
	promise.Heard = now
	return out, w.Note.Write(promise)
}

// stricter is what holds while the control plane may have either: nothing more is promised before it is asked.
func stricter(before, will watchdog.Promise) watchdog.Promise {
	switch {
	case before.After == 0:
		return will
	case will.After == 0 || will.After >= before.After:
		return before
	}
	return watchdog.Promise{Heard: before.Heard, After: will.After}
}

// promised is what the host promises now. The worker stops guests, too, but one that is dead does not:
// a promise needs the other process.
func (w *Watched) promised(ctx context.Context, now watchdog.Moment) time.Duration {
	if w.After == 0 {
		return 0
	}
	if looks := w.Watchdog.Looks(now); looks == w.unwatched {
		if w.unwatched = !looks; w.unwatched {
			w.Logger.WarnContext(ctx, "host.fence_after is set and no watchdog runs here (strongroom host watchdog): servers are evacuated from this host only when it is forced down")
		} else {
			w.Logger.InfoContext(ctx, "a watchdog runs here: it stops guests when no gateway answers this host", "seconds", w.After.Seconds())
		}
	}
	if w.unwatched {
		return 0
	}
	return w.After
}
