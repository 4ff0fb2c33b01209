package outbox

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"strongroom/compute"
	"strongroom/schema"
)

// mostChecked is how many unsettled operations Missing looks up.
const mostChecked = 10000

// Missing says, for people, which operations have begun, as the database says, and have no
// execution in the namespace of Temporal; "" if there are none. One that has ended counts.
func Missing(ctx context.Context, pool *pgxpool.Pool, executions Executions) (string, error) {
	rows, err := schema.New(pool).UnsettledOperations(ctx, mostChecked)
	if err != nil {
		return "", compute.Errorf(compute.Unavailable, "the database: %w", err)
	}
	var first compute.OperationID
	missing := 0
	for _, row := range rows {
		if row.State != compute.OperationRunning {
			continue // it may not have an execution yet
		}
		op := row.Operation()
		_, found, err := executions.FindExecution(ctx, op)
		if err == nil && !found {
			found, err = executions.HasRun(ctx, op)
		}
		if err != nil {
			return "", err
		}
		if !found {
			if missing++; missing == 1 {
				first = op.ID
			}
		}
	}
	if missing == 0 {
		return "", nil
	}
	return fmt.Sprintf("%d running operations, %s among them", missing, first), nil
}
