package ledger

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema"
	"strongroom/schema/fence"
)

// FindHost gives the host with a name or a uuid. NotFound: there is none.
func FindHost(ctx context.Context, pool *pgxpool.Pool, host string) (durable.Host, error) {
	row, err := schema.New(pool).FindHost(ctx, host)
	if errors.Is(err, pgx.ErrNoRows) {
		return durable.Host{}, compute.Errorf(compute.NotFound, "there is no host %s", host)
	}
	return durable.Host{ID: row.ID, Name: row.Name}, fence.Unavailable(err)
}

// FindForgettable gives the host with a name or a uuid, also one that has a volume with its own state and never reported
// itself. NotFound: there is none.
func FindForgettable(ctx context.Context, pool *pgxpool.Pool, host string) (durable.Host, error) {
	found, err := FindHost(ctx, pool, host)
	if !compute.Is(err, compute.NotFound) {
		return found, err
	}
	row, none := schema.New(pool).FindSecureVolume(ctx, host)
	if errors.Is(none, pgx.ErrNoRows) {
		return durable.Host{}, err
	}
	return durable.Host{ID: row.HostID, Name: row.HostName}, fence.Unavailable(none)
}

// Forgettable gives what Forget would let go. Its errors are those of Forget.
func Forgettable(ctx context.Context, pool *pgxpool.Pool, host compute.HostID) ([]compute.Thing, error) {
	var out []compute.Thing
	err := fence.Transaction(ctx, pool, func(q *schema.Queries) error {
		row, err := lockForgettable(ctx, q, host)
		if err != nil {
			return err
		}
		rows, err := q.WaitingOn(ctx, &host)
		out = thingsOn(row, rows)
		return err
	})
	return out, err
}

// Forget marks a host as one that never comes back: nothing is placed on it any more, it is in no aggregate, and
// what waits for it is released; its certificates are revoked, and the tokens for it that were not
// used. It gives what may still be on its disks; the keys of a volume with its own state are deleted. A host that enrolls and reports itself again is a host like any other.
// NotFound: there is no such host. Conflict: the host still runs, or something is on it
// that must go first.
func Forget(ctx context.Context, pool *pgxpool.Pool, host compute.HostID) ([]compute.Thing, error) {
	var out []compute.Thing
	err := fence.Transaction(ctx, pool, func(q *schema.Queries) error {
		row, err := lockForgettable(ctx, q, host)
		if err != nil {
			return err
		}
		if err := q.ForgetHost(ctx, host); err != nil {
			return err
		}
		if err := q.LeaveAggregates(ctx, host); err != nil {
			return err
		}
		if err := q.DeleteClaimsOfDeleted(ctx, host); err != nil {
			return err
		}
		if _, err := schema.LockOut(ctx, q, host.String()); err != nil { // whoever has the machine now
			return err
		}
		rows, err := schema.LetGo(ctx, q, host)
		if err != nil {
			return err
		}
		out = thingsOn(row, rows)
		if err := schema.GiveUpVolume(ctx, q, host); err != nil {
			return err
		}
		return q.CompleteEvacuations(ctx, schema.CompleteEvacuationsParams{HostID: &host})
	})
	return out, err
}

// lockForgettable locks a host that may be forgotten. The lock is the one that claims
// take: no server comes in between.
func lockForgettable(ctx context.Context, q *schema.Queries, host compute.HostID) (schema.Host, error) {
	row, err := q.LockHost(ctx, host)
	if errors.Is(err, pgx.ErrNoRows) {
		return neverReported(ctx, q, host)
	}
	if err != nil {
		return row, err
	}
	return row, mayForget(ctx, q, row)
}

// neverReported gives a host of which nothing is on record but the volume with its state. NotFound: not even that.
func neverReported(ctx context.Context, q *schema.Queries, host compute.HostID) (schema.Host, error) {
	v, err := q.LockSecureVolume(ctx, compute.StateVolume(host))
	if errors.Is(err, pgx.ErrNoRows) {
		return schema.Host{}, compute.Errorf(compute.NotFound, "there is no host %s", host)
	}
	return schema.Host{ID: host, Name: v.HostName}, err
}

func thingsOn(host schema.Host, rows []schema.Ledger) []compute.Thing {
	var out []compute.Thing
	for _, t := range rows {
		out = append(out, t.Thing(host.Name))
	}
	return out
}

func mayForget(ctx context.Context, q *schema.Queries, host schema.Host) error {
	is, err := q.HostCondition(ctx, schema.HostConditionParams{ID: host.ID, HostTimeout: compute.HostTimeout.Seconds()})
	if err != nil {
		return err
	}
	if !is.Down && !is.Stale {
		return compute.Errorf(compute.Conflict, "host %s reported itself less than %s ago: stop its worker first, or force it down", host.Name, compute.HostTimeout)
	}
	here, err := q.ServersHere(ctx, &host.ID)
	switch {
	case err != nil:
		return err
	case here.Arriving > 0:
		return compute.Errorf(compute.Conflict, "host %s is the target of %d live migrations that have not ended: once it is fenced force it down, which ends them, and then forget it", host.Name, here.Arriving)
	case here.Servers > 0:
		return compute.Errorf(compute.Conflict, "host %s still has %d servers: delete them first", host.Name, here.Servers)
	case here.Things > 0:
		return compute.Errorf(compute.Conflict, "host %s still has %d things that operations have not given up: wait until these have ended", host.Name, here.Things)
	}
	return nil
}
