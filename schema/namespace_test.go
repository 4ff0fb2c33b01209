package schema_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/schema"
	"strongroom/schema/schematest"
)

// M7: the first namespace of Temporal is the database's own; another one is refused, also of
// the same name, until it is adopted. The error says what to run.
func TestM7TheFirstNamespaceIsTheDatabasesOwn(t *testing.T) {
	t.Parallel()
	pool := schematest.New(t)
	check := func(id, name string) error { return schema.CheckNamespace(t.Context(), pool, id, name) }
	require.NoError(t, check("1", "strongroom"))
	require.NoError(t, check("1", "strongroom"))
	require.NoError(t, check("1", "renamed"))
	for name, said := range map[string]string{
		"default":    "its operations run in the namespace strongroom (id 1), and temporal.namespace is default (id 2)",
		"strongroom": "the namespace strongroom was the one with the id 1, and at temporal.address it has the id 2",
	} {
		err := check("2", name)
		require.ErrorIs(t, err, schema.ErrNamespace)
		require.ErrorContains(t, err, said)
		require.ErrorContains(t, err, "strongroom migrate --adopt-namespace")
	}
	require.NoError(t, schema.AdoptNamespace(t.Context(), pool, "2", "default"))
	require.NoError(t, check("2", "default"))
	require.ErrorIs(t, check("1", "strongroom"), schema.ErrNamespace)
}
