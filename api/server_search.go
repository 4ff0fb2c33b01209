package api

import (
	"context"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"strongroom/api/fault"
	"strongroom/compute"
)

// The limits of a search for a page of servers (M2). A client's regular expression may
// cost any amount of time: it gets little, and all of them together have a part of the
// database's connections only.
const (
	listLimit       = 20 * time.Second
	expressionLimit = 3 * time.Second
	maxExpression   = 300 // characters; a name has 255
)

// expressions is how many searches with an expression may run at once, of so many
// connections.
func expressions(connections int32) int { return max(1, int(connections)/4) }

// search gives what a page has. A project has one search with an expression at a time.
func (a *API) search(ctx context.Context, project string, q *serverQuery, limit int) (found []listed, err error) {
	longest := listLimit
	if q.expression {
		longest = expressionLimit
		done, err := a.searchTurns.take(ctx, project)
		if err != nil {
			return nil, err
		}
		defer done()
		leave, err := a.enterSearch(ctx)
		if err != nil {
			return nil, err
		}
		defer leave()
	}
	text, args := q.statement(limit)
	err = pgx.BeginTxFunc(ctx, a.config.Pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL statement_timeout = "+strconv.FormatInt(longest.Milliseconds(), 10)); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, text, args...)
		if err != nil {
			return err
		}
		found, err = pgx.CollectRows(rows, pgx.RowToStructByPos[listed])
		return err
	})
	if q.expression && fault.TookTooLong(err) {
		return nil, fault.BadRequest("The search took too long. Use a simpler regular expression, or filter by more.")
	}
	return found, err
}

// enterSearch waits until few enough searches with an expression run.
func (a *API) enterSearch(ctx context.Context) (leave func(), err error) {
	patience := time.NewTimer(listLimit)
	defer patience.Stop()
	select {
	case a.searches <- struct{}{}:
		return func() { <-a.searches }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-patience.C:
		return nil, compute.Errorf(compute.Unavailable, "Too many searches with regular expressions run. Try again.")
	}
}
