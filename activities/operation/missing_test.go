package operation_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/deploy/dev/temporal/temporaltest"
	"strongroom/durable"
	"strongroom/durable/outbox"
	"strongroom/schema"
)

// M7: the first control worker after an upgrade takes the namespace in which the operations
// on record run, and refuses one in which they do not. Without running operations it
// takes the one that it is told.
func TestM7TheFirstControlWorkerTakesNoForeignNamespace(t *testing.T) {
	t.Parallel()
	b := setup(t)
	foreign := durable.Starter{Client: temporaltest.Client(t)}
	check := func(starter durable.Starter, id string) error {
		_, err := schema.CheckNamespace(t.Context(), b.Pool, id, "default", func(ctx context.Context) (string, error) {
			return outbox.Missing(ctx, b.Pool, starter)
		})
		return err
	}
	op := b.operation(b.server(), compute.OpStop)
	missing, err := outbox.Missing(t.Context(), b.Pool, foreign)
	require.NoError(t, err)
	require.Empty(t, missing, "it has not begun")
	require.NoError(t, b.Starter.Start(t.Context(), op))
	b.becomes(op, compute.OperationRunning)

	err = check(foreign, "foreign")
	require.ErrorIs(t, err, schema.ErrNamespace)
	require.ErrorContains(t, err, "has no execution of 1 running operations, "+string(op.ID)+" among them")
	_, err = b.q.OwnNamespace(t.Context())
	require.Error(t, err, "it was not taken")
	require.NoError(t, check(b.Starter, "own"))
	own, err := b.q.OwnNamespace(t.Context())
	require.NoError(t, err)
	require.Equal(t, "own", own.ID)
	require.ErrorIs(t, check(foreign, "foreign"), schema.ErrNamespace)
}
