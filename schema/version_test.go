package schema_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/schema"
	"strongroom/schema/schematest"
)

// M7: a service starts on its own release's schema alone, and says what to run on another.
func TestM7ServicesStartOnTheirOwnSchemaAlone(t *testing.T) {
	t.Parallel()
	pool := schematest.Empty(t)
	check := func(said string) {
		t.Helper()
		err := schema.CheckVersion(t.Context(), pool)
		require.ErrorIs(t, err, schema.ErrVersion)
		require.ErrorContains(t, err, said)
	}
	check("it has none yet; run strongroom migrate")
	require.NoError(t, schema.Migrate(t.Context(), pool))
	require.NoError(t, schema.CheckVersion(t.Context(), pool))
	require.NoError(t, schema.Revert(t.Context(), pool, 3))
	check("it has version 3, needed is ")
	require.NoError(t, schema.Migrate(t.Context(), pool))
	_, err := pool.Exec(t.Context(), `INSERT INTO goose_db_version (version_id, is_applied) VALUES (4711, true)`)
	require.NoError(t, err)
	require.NoError(t, schema.CheckVersion(t.Context(), pool), "it is made for this release too")
	_, err = pool.Exec(t.Context(), `UPDATE schema_compatibility SET oldest_release = 4711`)
	require.NoError(t, err)
	check("it has version 4711, made for releases that bring 4711 or a later one, and this one brings ")
}
