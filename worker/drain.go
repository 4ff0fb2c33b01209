package worker

import (
	"context"
	"time"
)

const (
	// countEvery is how often a draining worker counts what it waits for. An
	// execution is counted some moments after its first workflow task, so none is
	// left when two counts in a row say so.
	countEvery = 3 * time.Second
	// sayEvery is how often the log says what a worker waits for.
	sayEvery = 30 * time.Second
)

// drain returns when this version's workers may stop: at once where the version is
// current, for then this is a restart and the next worker of the version goes on; or
// when no operation that began on it runs any more; or when Drain has passed. What
// is left then is the current version's (adopt).
func (d Deployment) drain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, d.Drain)
	defer cancel()
	current, err := d.isCurrent(ctx)
	if err != nil {
		d.Logger.WarnContext(ctx, "Temporal does not say which version is current: stopping", "error", err)
		return
	}
	if current {
		d.sayOpen(ctx)
		return
	}
	var said time.Time
	for zeros := 0; ; {
		n, err := d.pinned(ctx)
		switch {
		case err != nil:
			zeros = 0
			d.Logger.WarnContext(ctx, "operations could not be counted", "error", err)
		case n == 0:
			if zeros++; zeros == 2 {
				d.Logger.InfoContext(ctx, "no operation needs this version any more", "version", d.Version)
				return
			}
		default:
			zeros = 0
			if time.Since(said) >= sayEvery {
				said = time.Now()
				d.Logger.InfoContext(ctx, "another version is current: waiting for the operations that began on this one",
					"version", d.Version, "operations", n, "at_most", d.Drain)
			}
		}
		if !sleep(ctx, countEvery) {
			d.Logger.WarnContext(ctx, "stopping although operations that began on this version are left", "version", d.Version, "operations", n)
			return
		}
	}
}

// sayOpen says what the stop of the current version leaves: nobody else goes on with it
// before a worker is back.
func (d Deployment) sayOpen(ctx context.Context) {
	n, err := d.pinned(ctx)
	switch {
	case err != nil:
		d.Logger.WarnContext(ctx, "operations could not be counted", "error", err)
	case n > 0:
		d.Logger.InfoContext(ctx, "stopping the current version: its open operations go on with its other workers, "+
			"when a worker of this version is back, or when a newer version adopts them", "version", d.Version, "operations", n)
	}
}
