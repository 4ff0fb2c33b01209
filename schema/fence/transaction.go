package fence

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"strongroom/compute"
	"strongroom/schema"
)

// Transaction is InTransaction for activities. Trouble with the database is Unavailable, so
// it is tried again; do's own errors with a kind pass.
func Transaction(ctx context.Context, pool *pgxpool.Pool, do func(*schema.Queries) error) error {
	return Unavailable(InTransaction(ctx, pool, do))
}

// InTransaction runs do in one transaction, which waits five seconds for a lock at most: to try again is better than to wait. Errors are
// the database's and do's.
func InTransaction(ctx context.Context, pool *pgxpool.Pool, do func(*schema.Queries) error) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL lock_timeout = '5s'"); err != nil {
			return err
		}
		return do(schema.New(tx))
	})
}

// Unavailable gives an error of the database its kind. NotFound: the one row that was
// asked for is not there; no kind: the database understood and refused.
func Unavailable(err error) error {
	if err == nil || compute.KindOf(err) != "" {
		return err
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return compute.Errorf(compute.NotFound, "no such row: %w", err)
	}
	if isBug(err) {
		return fmt.Errorf("the database: %w", err)
	}
	return compute.Errorf(compute.Unavailable, "the database: %w", err)
}

// isBug reports whether the database understood and refused: bad data (class
// 22), a broken constraint (23), a wrong statement (42). The same will be
// refused again.
func isBug(err error) bool {
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || len(refused.Code) < 2 {
		return false
	}
	class := refused.Code[:2]
	return class == "22" || class == "23" || class == "42"
}
