package watchdog

import (
	"context"
	"log/slog"
	"time"
)

const (
	// lookEvery is how often a watchdog looks.
	lookEvery = time.Second
	// startGrace is how long one that was just started leaves guests alone whose lease it cannot read, or finds
	// expired: a worker that has contact writes it anew within that time, one of an earlier release
	// left it. It is a part of compute.FenceMargin, with what it takes to stop guests.
	startGrace = 20 * time.Second
	// tellEvery is how often a watchdog tells what it cannot do.
	tellEvery = time.Minute
)

// Watchdog stops a host's guests when the lease has expired, again and again: something may start one.
//
// One that was never able to read the lease does not know whether the host has contact. It leaves the guests to the
// worker's own watchdog for as long as that says that it does its work, for it knows. Where it does not, nobody
// else would stop them: then this one does, once the grace of its start is over.
type Watchdog struct {
	Lease     *LeaseFiles
	Now       Clock
	StopAll   func(ctx context.Context) error // a guest that cannot be stopped keeps no other one running
	Heartbeat Heartbeat                       // its own
	Worker    Heartbeat                       // that of the watchdog in the worker; "": it is that one
	Logger    *slog.Logger

	started *Moment // when it looked first
	settled bool    // its start needs no grace any more
	known   Lease   // as it was read last
	knows   bool    // that it was read
	fenced  bool    // guests are stopped

	problem string // that was told last
	told    Moment
}

// Run looks until ctx ends.
func (w *Watchdog) Run(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		w.look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (w *Watchdog) look(ctx context.Context) {
	now, err := w.Now()
	if err == nil {
		err = w.lookAt(ctx, now)
	}
	if ctx.Err() != nil {
		return
	}
	problem := message(err)
	if problem != "" && (problem != w.problem || now.Since-w.told.Since >= tellEvery) { // not each second
		w.told = now
		w.Logger.ErrorContext(ctx, "the watchdog cannot do all of its work: it may have to stop guests that have contact, and nothing is evacuated from here by its word", "error", problem)
	}
	w.problem = problem
}

func (w *Watchdog) lookAt(ctx context.Context, now Moment) error {
	if w.started == nil {
		w.started = &now
		w.settled = w.Heartbeat.Beats(now) // one ran before it, a moment ago
	}
	lease, err := w.Lease.Read()
	if err == nil {
		// Without the file in the run folder, which somebody removed, the one on disk says when the lease was taken.
		if is, was := &lease.LastContact, w.known.LastContact; w.knows && is.Boot == was.Boot {
			is.Since = max(is.Since, was.Since)
		}
		w.known, w.knows = lease, true
	}
	expired := w.expired(now)
	if expired != w.fenced {
		if w.fenced = expired; expired {
			w.Logger.WarnContext(ctx, "this host had no contact for as long as its lease says, or nobody knows whether it had: its guests are stopped", "seconds", w.known.Timeout.Seconds())
		} else {
			w.Logger.InfoContext(ctx, "this host has contact again: its guests may run")
		}
	}
	if expired {
		if failed := w.StopAll(ctx); failed != nil {
			return failed // it is none that does its work
		}
	}
	if err != nil { // it does not see the lease: none is to be taken because of it
		return err
	}
	return w.Heartbeat.beat(now)
}

// expired reports whether guests are to be stopped. What was read last holds while the lease cannot be read.
func (w *Watchdog) expired(now Moment) bool {
	inGrace := now.Since-w.started.Since < startGrace
	if !w.knows {
		return !inGrace && !w.Worker.Beats(now)
	}
	if !w.known.Expired(now) {
		w.settled = true
		return false
	}
	return w.settled || !inGrace
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
