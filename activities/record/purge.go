package record

import (
	"context"
	"time"

	"github.com/google/uuid"

	"strongroom/schema"
)

// purgeBatch is how many servers one pass purges at most.
const purgeBatch = 100

// Purge removes what the database has of servers that were deleted longer ago than the retention, 0 for never:
// rows, disks, metadata, operations and their trail. Those of which something still waits to
// be removed stay. The ledger keeps what was released.
func (a *Activities) Purge(ctx context.Context, retention time.Duration) (purged int, err error) {
	if retention <= 0 {
		return 0, nil
	}
	before := time.Now().Add(-retention)
	err = a.transaction(ctx, func(q *schema.Queries) error {
		old, err := q.PurgeableServers(ctx, schema.PurgeableServersParams{Before: before, Most: purgeBatch})
		if err != nil || len(old) == 0 {
			return err
		}
		ids := make([]uuid.UUID, len(old))
		for i, id := range old {
			ids[i] = id.UUID
		}
		for _, purge := range []func(context.Context, []uuid.UUID) error{
			q.PurgeServerEvents, q.PurgeServerOperations, q.PurgeServerDisks, q.PurgeServerSystemMetadata, q.PurgeServers,
		} {
			if err := purge(ctx, ids); err != nil {
				return err
			}
		}
		purged = len(old)
		return nil
	})
	return purged, err
}
