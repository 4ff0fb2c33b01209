package record

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"strongroom/compute"
	"strongroom/schema"
)

// purgeBatch is how many servers one pass purges at most.
const purgeBatch = 100

// purgeAgain is how long a server that could not be purged is left out.
const purgeAgain = time.Hour

// unpurged are servers that could not be purged, and since when.
type unpurged struct {
	mu    sync.Mutex
	since map[compute.ServerID]time.Time
}

// left lists those that are left out for now.
func (u *unpurged) left(now time.Time) []uuid.UUID {
	u.mu.Lock()
	defer u.mu.Unlock()
	out := []uuid.UUID{}
	for id, since := range u.since {
		if now.Sub(since) > purgeAgain {
			delete(u.since, id)
			continue
		}
		out = append(out, id.UUID)
	}
	return out
}

func (u *unpurged) add(id compute.ServerID, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.since == nil {
		u.since = map[compute.ServerID]time.Time{}
	}
	u.since[id] = now
}

// Purge removes what the database has of servers that were deleted longer ago than the retention, 0 for never:
// rows, disks, metadata, operations and their trail. Those of which something still waits to
// be removed stay. The ledger keeps what was released. Where a batch fails, its servers are
// purged one by one, and the error names those that could not be: they hold up no other, and
// are tried again an hour later.
func (a *Activities) Purge(ctx context.Context, retention time.Duration) (purged int, err error) {
	if retention <= 0 {
		return 0, nil
	}
	now := time.Now()
	batch := schema.PurgeableServersParams{Before: now.Add(-retention), Most: purgeBatch, Without: a.unpurged.left(now)}
	var failed []compute.ServerID
	purged, failed, err = a.purge(ctx, batch)
	if err == nil || len(failed) == 0 || ctx.Err() != nil {
		return purged, err
	}
	purged, err = 0, nil
	for _, id := range failed {
		one := func(q *schema.Queries) error { return purge(ctx, q, []uuid.UUID{id.UUID}) }
		switch oneErr := a.transaction(ctx, one); {
		case oneErr == nil:
			purged++
		case ctx.Err() != nil, compute.Is(oneErr, compute.Unavailable):
			return purged, errors.Join(err, oneErr)
		default:
			a.unpurged.add(id, now)
			err = errors.Join(err, fmt.Errorf("server %s: %w", id, oneErr))
		}
	}
	return purged, err
}

// purge purges a batch in one transaction. After a failure it gives the servers of the batch.
func (a *Activities) purge(ctx context.Context, batch schema.PurgeableServersParams) (purged int, failed []compute.ServerID, err error) {
	err = a.transaction(ctx, func(q *schema.Queries) error {
		old, err := q.PurgeableServers(ctx, batch)
		if err != nil || len(old) == 0 {
			return err
		}
		failed = old
		ids := make([]uuid.UUID, len(old))
		for i, id := range old {
			ids[i] = id.UUID
		}
		return purge(ctx, q, ids)
	})
	if err == nil {
		return len(failed), nil, nil
	}
	return 0, failed, err
}

func purge(ctx context.Context, q *schema.Queries, ids []uuid.UUID) error {
	for _, purge := range []func(context.Context, []uuid.UUID) error{
		q.PurgeServerEvents, q.PurgeServerOperations, q.PurgeServerDisks, q.PurgeServerSystemMetadata, q.PurgeServers,
	} {
		if err := purge(ctx, ids); err != nil {
			return err
		}
	}
	return nil
}
