package schema

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrNamespace says that Temporal's namespace is not the one in which the executions of the
// database's operations are.
var ErrNamespace = errors.New("this namespace of Temporal is not the one of the database")

// CheckNamespace refuses a namespace of Temporal that is not the database's own: a control
// worker there finds no execution of any running operation, and would settle them all as
// lost (M7). The first namespace that it is asked about becomes the database's own, if
// missing says that none of the executions of running operations is missing there. The
// error is an ErrNamespace and says what to run. claimed: it is the database's own since now.
func CheckNamespace(ctx context.Context, pool *pgxpool.Pool, id, name string, missing func(context.Context) (string, error)) (claimed bool, err error) {
	q := New(pool)
	own, err := q.OwnNamespace(ctx)
	if errors.Is(err, pgx.ErrNoRows) {
		if claimed, err = claimFirst(ctx, q, id, name, missing); err != nil {
			return false, err
		}
		own, err = q.OwnNamespace(ctx)
	}
	switch {
	case err != nil:
		return false, fmt.Errorf("schema: %w", err)
	case own.ID == id:
		return claimed, nil
	case own.Name != name:
		return false, fmt.Errorf("%w: its operations run in the namespace %s (id %s), and temporal.namespace is %s (id %s); correct temporal.address and temporal.namespace, or, if the operations of the old one are to be given up, run strongroom migrate --adopt-namespace",
			ErrNamespace, own.Name, own.ID, name, id)
	}
	return false, fmt.Errorf("%w: the namespace %s was the one with the id %s, and at temporal.address it has the id %s, so it is another Temporal or was made anew; correct temporal.address, or, if the operations of the old one are lost, run strongroom migrate --adopt-namespace",
		ErrNamespace, name, own.ID, id)
}

// claimFirst makes the first namespace the database's own.
func claimFirst(ctx context.Context, q *Queries, id, name string, missing func(context.Context) (string, error)) (bool, error) {
	lost, err := missing(ctx)
	if err != nil {
		return false, err
	}
	if lost != "" {
		return false, fmt.Errorf("%w: the database does not say which one is, and the namespace %s (id %s) has no execution of %s; correct temporal.address and temporal.namespace, or, if it is the right one and these operations are to be given up, run strongroom migrate --adopt-namespace",
			ErrNamespace, name, id, lost)
	}
	rows, err := q.ClaimNamespace(ctx, ClaimNamespaceParams{ID: id, Name: name})
	if err != nil {
		return false, fmt.Errorf("schema: %w", err)
	}
	return rows > 0, nil
}

// AdoptNamespace makes a namespace of Temporal the database's own. Operations that run in the
// one before are settled as lost by the janitor.
func AdoptNamespace(ctx context.Context, pool *pgxpool.Pool, id, name string) error {
	return New(pool).AdoptNamespace(ctx, AdoptNamespaceParams{ID: id, Name: name})
}
