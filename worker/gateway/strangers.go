package gateway

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"strongroom/compute"
)

const (
	// strangersAtOnce is how many requests of those who have no certificate yet use the database at once, besides one that makes the list of
	// revoked ones: hosts, which read keys, have the rest of its connections (S9).
	strangersAtOnce = 2
	// strangersPatience is how long such a request waits for its turn.
	strangersPatience = 5 * time.Second
	// listFresh is how long the list of revoked certificates is given out before it is made again. Who follows it asks every few seconds.
	listFresh = 2 * time.Second
)

// turns are taken by requests of strangers.
type turns struct{ at *semaphore.Weighted }

// take waits for a turn, which the caller must end. Unavailable: too many others wait, too.
func (t turns) take(ctx context.Context) (end func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, strangersPatience)
	defer cancel()
	if err := t.at.Acquire(ctx, 1); err != nil {
		return nil, compute.Errorf(compute.Unavailable, "too many others ask at once: try again")
	}
	return func() { t.at.Release(1) }, nil
}

// signedList is the list of revoked certificates as it was signed last.
type signedList struct {
	mu    sync.Mutex
	list  []byte
	until time.Time
}

// get gives the list while it is fresh; nil: it is to be made again.
func (l *signedList) get(now time.Time) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.After(l.until) {
		return nil
	}
	return l.list
}

func (l *signedList) put(list []byte, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list, l.until = list, until
}
