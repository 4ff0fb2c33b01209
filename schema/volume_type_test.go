package schema_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/schema"
	"strongroom/schema/schematest"
)

// The first volume type is made where none was ever made: not beside another, not again after it was deleted. Two at once make one.
func TestTheFirstVolumeType(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	q := schema.New(pool)
	ensure := func() error {
		return q.InsertFirstVolumeType(t.Context(), schema.InsertFirstVolumeTypeParams{ID: uuid.New(), Name: "__DEFAULT__"})
	}
	names := func() (all []string) {
		t.Helper()
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT coalesce(array_agg(name ORDER BY name), '{}') FROM volume_types").Scan(&all))
		return all
	}
	for _, err := range schematest.AtOnce(8, func(int) error { return ensure() }) {
		require.NoError(t, err)
	}
	require.Equal(t, []string{"__DEFAULT__"}, names())
	_, err := pool.Exec(t.Context(), `INSERT INTO volume_type_changes (volume_type_id, name, action, request_id, user_id, project_id) SELECT id, name, 'delete', 'r', 'u', 'p' FROM volume_types`)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), "DELETE FROM volume_types")
	require.NoError(t, err)
	require.NoError(t, ensure())
	require.Empty(t, names(), "somebody deleted it")
	_, err = pool.Exec(t.Context(), "DELETE FROM volume_type_changes")
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), "INSERT INTO volume_types (id, name) VALUES (gen_random_uuid(), 'ssd')")
	require.NoError(t, err)
	require.NoError(t, ensure())
	require.Equal(t, []string{"ssd"}, names())
}
