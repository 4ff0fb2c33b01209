// Package fence keeps an operation that has lost its server to another one from
// writing anything for it.
package fence

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"strongroom/compute"
	"strongroom/schema"
)

// Message says that another operation has taken over the server: the one that is told so undoes its work and ends.
const Message = "another operation has taken over the server"

// Superseded is the error of a write by an operation that has lost its server.
func Superseded() error { return compute.Errorf(compute.Superseded, Message) }

// Owned runs do in a transaction if the server is the operation's, and else gives
// Superseded. No other operation can take over the server before the transaction ends.
// An operation without a server owns what it works on until it is settled.
func Owned(ctx context.Context, pool *pgxpool.Pool, op compute.OperationID, server compute.ServerID, do func(*schema.Queries) error) error {
	never := func(*schema.Queries) (bool, error) { return false, nil }
	return Decide(ctx, pool, op, server, never, do)
}

// Decide is Owned for an operation's point of no return. Running again after it was
// passed is a success, also when another operation has taken over the server by then:
// an undo would take away what is on record. alreadyDecided reports whether it was.
func Decide(ctx context.Context, pool *pgxpool.Pool, op compute.OperationID, server compute.ServerID,
	alreadyDecided func(*schema.Queries) (bool, error), do func(*schema.Queries) error,
) error {
	return Transaction(ctx, pool, func(q *schema.Queries) error {
		// The lock first: an earlier attempt may be about to commit.
		owned, err := LockIfOwned(ctx, q, op, server)
		if err != nil {
			return err
		}
		if owned {
			return do(q)
		}
		decided, err := alreadyDecided(q)
		if err == nil && !decided {
			err = Superseded()
		}
		return err
	})
}

// LockIfOwned locks the server's row for the rest of the transaction if the server is
// the operation's, and says whether it is.
func LockIfOwned(ctx context.Context, q *schema.Queries, op compute.OperationID, server compute.ServerID) (bool, error) {
	if server == (compute.ServerID{}) {
		rows, err := q.LockOperation(ctx, op)
		return rows > 0, err
	}
	rows, err := q.LockServerOf(ctx, schema.LockServerOfParams{ID: server, CurrentOperation: op})
	return rows > 0, err
}
