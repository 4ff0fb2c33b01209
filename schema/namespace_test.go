package schema_test

import (
	"context"
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
	check := func(id, name, missing string) (bool, error) {
		return schema.CheckNamespace(t.Context(), pool, id, name, func(context.Context) (string, error) { return missing, nil })
	}
	accepted := func(id, name, missing string, first bool) {
		t.Helper()
		claimed, err := check(id, name, missing)
		require.NoError(t, err)
		require.Equal(t, first, claimed)
	}
	claimed, err := check("1", "strongroom", "2 running operations, req-1 among them")
	require.False(t, claimed)
	require.ErrorIs(t, err, schema.ErrNamespace)
	require.ErrorContains(t, err, "the namespace strongroom (id 1) has no execution of 2 running operations, req-1 among them")
	require.ErrorContains(t, err, "strongroom migrate --adopt-namespace")
	accepted("1", "strongroom", "", true)
	accepted("1", "strongroom", "what the janitor settles", false)
	accepted("1", "renamed", "", false)
	for name, said := range map[string]string{
		"default":    "its operations run in the namespace strongroom (id 1), and temporal.namespace is default (id 2)",
		"strongroom": "the namespace strongroom was the one with the id 1, and at temporal.address it has the id 2",
	} {
		_, err := check("2", name, "")
		require.ErrorIs(t, err, schema.ErrNamespace)
		require.ErrorContains(t, err, said)
		require.ErrorContains(t, err, "strongroom migrate --adopt-namespace")
	}
	require.NoError(t, schema.AdoptNamespace(t.Context(), pool, "2", "default"))
	accepted("2", "default", "", false)
	_, err = check("1", "strongroom", "")
	require.ErrorIs(t, err, schema.ErrNamespace)
}
