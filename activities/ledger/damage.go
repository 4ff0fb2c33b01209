package ledger

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"strongroom/compute"
	"strongroom/schema"
	"strongroom/schema/fence"
)

// KnownServers gives those of some servers that the database has, deleted ones too.
func KnownServers(ctx context.Context, pool *pgxpool.Pool, ids []compute.ServerID) (map[compute.ServerID]compute.KnownServer, error) {
	out := map[compute.ServerID]compute.KnownServer{}
	err := fence.Transaction(ctx, pool, func(q *schema.Queries) error {
		for _, id := range ids {
			row, err := q.GetServer(ctx, id)
			if errors.Is(err, pgx.ErrNoRows) {
				continue
			}
			if err != nil {
				return err
			}
			s := compute.KnownServer{Deleted: row.DeletedAt != nil, Busy: row.CurrentOperation != ""}
			if s.Server, err = schema.LoadServer(ctx, q, id); err != nil {
				return err
			}
			made, err := q.FirstOperation(ctx, id)
			if err != nil {
				return err
			}
			s.Made = compute.OperationID(made)
			has, err := q.ThingsOf(ctx, schema.ThingsOfParams{OwnerKind: compute.OwnerServer, OwnerID: id.UUID})
			if err != nil {
				return err
			}
			for _, t := range has {
				s.Has = append(s.Has, t.Ledger.Thing(t.HostName))
			}
			out[id] = s
		}
		return nil
	})
	return out, err
}

// Now is the database's clock.
func Now(ctx context.Context, pool *pgxpool.Pool) (time.Time, error) {
	now, err := schema.New(pool).DatabaseTime(ctx)
	return now, fence.Unavailable(err)
}

func moved(server compute.ServerID) error {
	return compute.Errorf(compute.Conflict, "server %s was changed meanwhile: ask again", server)
}

// lockIdle locks a server that no operation has. Conflict: one has it, or it was changed
// after a time.
func lockIdle(ctx context.Context, q *schema.Queries, server compute.ServerID, since *time.Time) error {
	_, err := q.LockIdleServer(ctx, schema.LockIdleServerParams{ID: server, Since: since})
	if errors.Is(err, pgx.ErrNoRows) {
		return moved(server)
	}
	return err
}

// Repair mends what is a matter of the ledger alone: it releases rows of things that are
// gone, writes down things that exist, and lets those wait that are to go. since is when the
// world was looked at. Running again after it took effect is a success. Conflict: the
// server was changed since, or an operation has it.
func Repair(ctx context.Context, pool *pgxpool.Pool, d compute.Damage, since time.Time) error {
	return fence.Transaction(ctx, pool, func(q *schema.Queries) error {
		if d.Remedy == compute.RemoveUnknown {
			return removeUnknown(ctx, q, d)
		}
		if err := lockIdle(ctx, q, d.Server, &since); err != nil {
			return err
		}
		switch d.Remedy {
		case compute.ReleaseRow:
			return Release(ctx, q, d.Things)
		case compute.RestoreRow:
			if err := Open(ctx, q, d.Things); err != nil {
				return err
			}
			return Present(ctx, q, d.Things)
		case compute.UndoRotation:
			return letGo(ctx, q, d.Things, "the rotation that made it was cut off")
		case compute.TerminateExecution, compute.SettleOperation, compute.NameKey, compute.DeleteServer, compute.RemoveUnknown:
		}
		return compute.Errorf(compute.Invalid, "%q is not mended on the ledger", d.Remedy)
	})
}

// removeUnknown lets what exists of a server wait on the ledger, of which the janitor removes
// it. Conflict: the database has the server.
func removeUnknown(ctx context.Context, q *schema.Queries, d compute.Damage) error {
	known, err := q.ServerExists(ctx, d.Server)
	if err != nil {
		return err
	}
	if known {
		return compute.Errorf(compute.Conflict, "server %s is on record: delete it as any other", d.Server)
	}
	if err := Open(ctx, q, d.Things); err != nil {
		return err
	}
	return letGo(ctx, q, d.Things, "its server was named with repair --remove-unknown")
}

func letGo(ctx context.Context, q *schema.Queries, things []compute.Thing, why string) error {
	return each(things, func(t compute.Thing) error {
		return Wait(ctx, q, []compute.Thing{t.Waits(compute.BlockedByThings, why)})
	})
}

// LockGone locks a server of which nothing is left for its delete, and releases those rows of
// services that nobody could ask for any more. Conflict: as for Repair.
func LockGone(ctx context.Context, q *schema.Queries, d compute.Damage, since time.Time) error {
	if err := lockIdle(ctx, q, d.Server, &since); err != nil {
		return err
	}
	return each(d.Things, func(t compute.Thing) error {
		if t.OnHost() { // the delete looks once more
			return nil
		}
		return Release(ctx, q, []compute.Thing{t})
	})
}
