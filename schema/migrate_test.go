package schema_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/schema"
	"strongroom/schema/schematest"
)

func TestMigrationsGoUpAndDownAndUp(t *testing.T) {
	t.Parallel()
	pool := schematest.Empty(t)
	ctx := context.Background()
	require.NoError(t, schema.Migrate(ctx, pool))
	require.NoError(t, schema.Revert(ctx, pool, 0))
	require.NoError(t, schema.Migrate(ctx, pool))
	require.NoError(t, schema.Migrate(ctx, pool), "a second run changes nothing")
}
