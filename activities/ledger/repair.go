package ledger

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"strongroom/compute"
	"strongroom/schema"
	"strongroom/schema/fence"
)

// DiskKeys gives the secrets of the disks of all servers.
func DiskKeys(ctx context.Context, pool *pgxpool.Pool) ([]compute.DiskKey, error) {
	var out []compute.DiskKey
	err := fence.Transaction(ctx, pool, func(q *schema.Queries) error {
		rows, err := q.DiskKeys(ctx)
		if err != nil {
			return err
		}
		for _, row := range rows {
			d, err := row.ServerDisk.Disk()
			if err != nil {
				return err
			}
			out = append(out, compute.DiskKey{Server: row.ServerDisk.ServerID, Disk: d, Thing: row.Ledger.Thing(""), Busy: row.CurrentOperation != ""})
		}
		return nil
	})
	return out, err
}

// RepairKey names the secret that was found in the record of its disk, and puts it on the
// ledger in the place of the one that is gone. It may be there already: its rotation was
// under way when the backup was made. Conflict: the server or its disk is another by now.
func RepairKey(ctx context.Context, pool *pgxpool.Pool, r compute.KeyRepair, since time.Time) error {
	return fence.Transaction(ctx, pool, func(q *schema.Queries) error {
		if err := lockIdle(ctx, q, r.Server, &since); err != nil {
			return err
		}
		now := r.Thing()
		has, err := q.ThingsOf(ctx, schema.ThingsOfParams{OwnerKind: now.Owner.Kind, OwnerID: now.Owner.ID})
		if err != nil {
			return err
		}
		n, err := q.ReplaceDiskSecret(ctx, schema.ReplaceDiskSecretParams{ID: r.Key.Disk.ID, Was: &r.Was, Now: &r.Now.ID})
		if err != nil {
			return err
		}
		if n == 0 {
			return moved(r.Server)
		}
		var gone []compute.Thing
		if r.WasThere {
			if err := letGo(ctx, q, []compute.Thing{r.Key.Thing}, "it opens its disk no more"); err != nil {
				return err
			}
		} else {
			gone = append(gone, r.Key.Thing)
		}
		for _, row := range has {
			// The slots that a rotation was adding at the time of the backup are the disk's by now.
			if row.Ledger.Kind == compute.ThingKeySlot && row.Ledger.Name == compute.AddedKeySlots(r.Server, r.Key.Disk.Name(), now.Operation) {
				gone = append(gone, row.Ledger.Thing(""))
			}
		}
		if err := Release(ctx, q, gone); err != nil {
			return err
		}
		if err := Open(ctx, q, []compute.Thing{now}); err != nil {
			return err
		}
		return Present(ctx, q, []compute.Thing{now})
	})
}
