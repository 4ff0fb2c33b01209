package schema

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrNamespace says that Temporal's namespace is not the one in which the executions of the
// database's operations are.
var ErrNamespace = errors.New("this namespace of Temporal is not the one of the database")

// CheckNamespace refuses a namespace of Temporal that is not the database's own: a control
// worker there finds no execution of any running operation, and would settle them all as
// lost (M7). The first namespace that it is asked about becomes the database's own. The
// error is an ErrNamespace and says what to run.
func CheckNamespace(ctx context.Context, pool *pgxpool.Pool, id, name string) error {
	q := New(pool)
	if err := q.ClaimNamespace(ctx, ClaimNamespaceParams{ID: id, Name: name}); err != nil {
		return fmt.Errorf("schema: %w", err)
	}
	own, err := q.OwnNamespace(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("schema: %w", err)
	case own.ID == id:
		return nil
	case own.Name != name:
		return fmt.Errorf("%w: its operations run in the namespace %s (id %s), and temporal.namespace is %s (id %s); correct temporal.address and temporal.namespace, or, if the operations of the old one are to be given up, run strongroom migrate --adopt-namespace",
			ErrNamespace, own.Name, own.ID, name, id)
	}
	return fmt.Errorf("%w: the namespace %s was the one with the id %s, and at temporal.address it has the id %s, so it is another Temporal or was made anew; correct temporal.address, or, if the operations of the old one are lost, run strongroom migrate --adopt-namespace",
		ErrNamespace, name, own.ID, id)
}

// AdoptNamespace makes a namespace of Temporal the database's own. Operations that run in the
// one before are settled as lost by the janitor.
func AdoptNamespace(ctx context.Context, pool *pgxpool.Pool, id, name string) error {
	return New(pool).AdoptNamespace(ctx, AdoptNamespaceParams{ID: id, Name: name})
}
