package sharewatch

import (
	"context"
	"time"

	"strongroom/compute"
	"strongroom/schema"
	"strongroom/schema/fence"
)

const (
	// few is how many shares may be missed in any case.
	few = 1
	// lately is how long one that was put in error counts as missed: where few servers have shares, it
	// would else be followed by the next one.
	lately = 24 * time.Hour
)

// tooMany reports whether more shares are missed at once than users take away: the service may be another
// one, or have got an older database, or hide them from who looks, in which case it says of all of them that they
// are gone. What counts is what looks found since the latest of these attachments was first missed: what they found before,
// the service has not said since. So of many that are missed at one time some wait until enough others were looked at.
func (p project) tooMany(ctx context.Context, rows []schema.DueSharesRow) (bool, error) {
	since := *rows[0].MissedAt
	for _, row := range rows {
		if row.MissedAt.After(since) {
			since = *row.MissedAt
		}
	}
	n, err := schema.New(p.Pool).CountMissed(ctx, schema.CountMissedParams{Since: since, Lately: lately.Seconds()})
	if err != nil {
		return false, fence.Unavailable(err)
	}
	if n.Gone <= few || !p.exceeds(n.Gone, n.Gone+n.Seen) {
		return false, nil
	}
	if p.exceeds(n.Gone, n.Watched) || p.now.Sub(since) >= p.Interval { // or all that can be looked at were
		p.warn(ctx, n)
	}
	return true, nil
}

func (w *Watch) exceeds(gone, of int64) bool { return gone*100 > of*int64(w.MostMissed) }

// warn says it once for each interval.
func (p project) warn(ctx context.Context, n schema.CountMissedRow) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now.Sub(p.warned) < p.Interval {
		return
	}
	p.warned = p.now
	p.Logger.ErrorContext(ctx, "many shares of servers are missed at once: none of them is put in error (control.share_most_missed)",
		"missed", n.Gone, "of", n.Watched, "why", compute.HeldShares)
}
