package record

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema"
)

// The registered names of the activities.
const (
	Begin       = "record.Begin"
	Task        = "record.Task"
	Claim       = "record.Claim"
	Unclaim     = "record.Unclaim"
	SaveSecrets = "record.SaveSecrets"
	SaveOptions = "record.SaveOptions"
	Open        = "record.Open"
	Close       = "record.Close"
	Release     = "record.Release"
	Things      = "record.Things"
	Settle      = "record.Settle"
	Bury        = "record.Bury"
	Ledger      = "record.Ledger"
)

// Activities are the local activities on the database.
type Activities struct{ Pool *pgxpool.Pool }

// Activity pairs a registered name with its function.
type Activity struct {
	Name string
	Func any
}

// All lists the activities with their names.
func (a *Activities) All() []Activity {
	return []Activity{
		{Begin, a.Begin}, {Task, a.Task}, {Claim, a.Claim}, {Unclaim, a.Unclaim},
		{SaveSecrets, a.SaveSecrets}, {SaveOptions, a.SaveOptions},
		{Open, a.Open}, {Close, a.Close}, {Release, a.Release}, {Things, a.Things},
		{Settle, a.Settle}, {Bury, a.Bury}, {Ledger, a.Ledger},
	}
}

// ErrSuperseded is the message of a Conflict that says the server went over to
// another operation; the one that gets it undoes its work and ends.
const superseded = "the server has gone over to another operation"

func errSuperseded() error { return compute.Errorf(compute.Conflict, superseded) }

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

func unavailable(err error) error {
	if err == nil || compute.KindOf(err) != "" {
		return err
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return compute.Errorf(compute.NotFound, "no such row: %w", err)
	}
	return compute.Errorf(compute.Unavailable, "the database: %w", err)
}

// fenced turns "no row changed" into the loss of the server.
func fenced(rows int64, err error) error {
	if err == nil && rows == 0 {
		return errSuperseded()
	}
	return err
}
