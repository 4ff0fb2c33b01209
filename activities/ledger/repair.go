package ledger

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"
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
// ledger in the place of the one that is gone. Conflict: the server, its disk or the ledger
// is another by now.
func RepairKey(ctx context.Context, pool *pgxpool.Pool, r compute.KeyRepair) error {
	return fence.Transaction(ctx, pool, func(q *schema.Queries) error {
		moved := compute.Errorf(compute.Conflict, "server %s was changed meanwhile: ask again", r.Server)
		if _, err := q.LockIdleServer(ctx, r.Server); errors.Is(err, pgx.ErrNoRows) {
			return moved
		} else if err != nil {
			return err
		}
		now := r.Thing()
		has, err := q.ThingsOf(ctx, schema.ThingsOfParams{OwnerKind: now.Owner.Kind, OwnerID: now.Owner.ID})
		if err != nil {
			return err
		}
		if slices.ContainsFunc(has, func(row schema.ThingsOfRow) bool { return row.Ledger.Kind == now.Kind && row.Ledger.Name == now.Name }) {
			return compute.Errorf(compute.Conflict, "secret %s is on the ledger as another operation's", r.Now.ID)
		}
		n, err := q.ReplaceDiskSecret(ctx, schema.ReplaceDiskSecretParams{ID: r.Key.Disk.ID, Was: &r.Was, Now: &r.Now.ID})
		if err != nil {
			return err
		}
		if n == 0 {
			return moved
		}
		if err := Release(ctx, q, []compute.Thing{r.Key.Thing}); err != nil {
			return err
		}
		if err := Open(ctx, q, []compute.Thing{now}); err != nil {
			return err
		}
		return Present(ctx, q, []compute.Thing{now})
	})
}
