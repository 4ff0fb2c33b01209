package record

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema"
)

// The registered names of the activities.
const (
	Begin        = "record.Begin"
	Task         = "record.Task"
	Claim        = "record.Claim"
	Unclaim      = "record.Unclaim"
	SaveSecrets  = "record.SaveSecrets"
	ClearSecrets = "record.ClearSecrets"
	SaveOptions  = "record.SaveOptions"
	Open         = "record.Open"
	Close        = "record.Close"
	Things       = "record.Things"
	Give         = "record.Give"
	Given        = "record.Given"
	Settle       = "record.Settle"
	Bury         = "record.Bury"
	Ledger       = "record.Ledger"
	SaveTrust    = "record.SaveTrust"
	ForgetTrust  = "record.ForgetTrust"
	Waiting      = "record.Waiting"
	Reaped       = "record.Reaped"
	Rebuild      = "record.Rebuild"
	Rotate       = "record.Rotate"
	Unrescue     = "record.Unrescue"
)

// Activities are the local activities on the database.
type Activities struct {
	Pool   *pgxpool.Pool
	Legacy compute.LegacyEncryption // of disks with a legacy key; default compute.DefaultLegacyEncryption
}

// Activity pairs a registered name with its function.
type Activity struct {
	Name string
	Func any
}

// All lists the activities with their names.
func (a *Activities) All() []Activity {
	return []Activity{
		{Begin, a.Begin}, {Task, a.Task}, {Claim, a.Claim}, {Unclaim, a.Unclaim},
		{SaveSecrets, a.SaveSecrets}, {ClearSecrets, a.ClearSecrets}, {SaveOptions, a.SaveOptions},
		{Open, a.Open}, {Close, a.Close}, {Things, a.Things},
		{Give, a.Give}, {Given, a.Given}, {Settle, a.Settle}, {Bury, a.Bury}, {Ledger, a.Ledger},
		{SaveTrust, a.SaveTrust}, {ForgetTrust, a.ForgetTrust}, {Waiting, a.Waiting}, {Reaped, a.Reaped},
		{Rebuild, a.Rebuild},
		{Rotate, a.Rotate}, {Unrescue, a.Unrescue},
	}
}

// superseded is the message of the Conflict that says the server went over to
// another operation; the one that gets it undoes its work and ends.
const superseded = "the server has gone over to another operation"

// Superseded is the error of a write by an operation that has lost its server.
func Superseded() error { return compute.Errorf(compute.Conflict, superseded) }

// IsSuperseded reports whether err says that the operation lost its server.
func IsSuperseded(err error) bool {
	e := durable.FromTemporal(err)
	return e != nil && e.Kind == compute.Conflict && e.Message == superseded
}

// tx runs do in one transaction. Trouble with the database is Unavailable, so
// it is tried again; do's own errors with a kind pass.
func (a *Activities) tx(ctx context.Context, do func(*schema.Queries) error) error {
	err := pgx.BeginFunc(ctx, a.Pool, func(tx pgx.Tx) error {
		// A lock that does not come is better tried again than waited for.
		if _, err := tx.Exec(ctx, "SET LOCAL lock_timeout = '5s'"); err != nil {
			return err
		}
		return do(schema.New(tx))
	})
	return unavailable(err)
}

// fencedTx is tx for a write that belongs to an operation: it does nothing when
// the server has gone over to another one, and the server cannot go over before
// it is through.
func (a *Activities) fencedTx(ctx context.Context, in durable.OperationInput, do func(*schema.Queries) error) error {
	never := func(*schema.Queries) (bool, error) { return false, nil }
	return a.decisionTx(ctx, in, never, do)
}

// decisionTx is fencedTx for a point from which an operation goes only onward. stands
// tells whether it was passed. Running again after it was is a success, also when the
// server has gone over to another operation by then: an undo would take away what is
// on record.
func (a *Activities) decisionTx(ctx context.Context, in durable.OperationInput,
	stands func(*schema.Queries) (bool, error), decide func(*schema.Queries) error,
) error {
	return a.tx(ctx, func(q *schema.Queries) error {
		// The lock first: an earlier attempt may be about to commit.
		held, err := hold(ctx, q, in)
		if err != nil {
			return err
		}
		if held {
			return decide(q)
		}
		passed, err := stands(q)
		if err == nil && !passed {
			err = Superseded()
		}
		return err
	})
}

// hold locks the server's row for as long as the transaction lasts, if the
// server is still the operation's.
func hold(ctx context.Context, q *schema.Queries, in durable.OperationInput) (bool, error) {
	rows, err := q.HoldServer(ctx, schema.HoldServerParams{ID: in.Server, CurrentOperation: in.Operation})
	return rows > 0, err
}

func unavailable(err error) error {
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
