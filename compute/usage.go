package compute

import "time"

// Ran is when a server ran: from its first start to its delete.
type Ran struct {
	From time.Time
	To   *time.Time // nil: it still does
}

// Within is how long a server ran within a period that ends at until; 0 if it did not.
func (r Ran) Within(since, until time.Time) time.Duration {
	if r.From.After(since) {
		since = r.From
	}
	if r.To != nil && r.To.Before(until) {
		until = *r.To
	}
	return max(0, until.Sub(since))
}

// For is how long it ran in all, by now.
func (r Ran) For(now time.Time) time.Duration { return r.Within(r.From, now) }
