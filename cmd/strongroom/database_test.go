package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/schema"
	"strongroom/schema/schematest"
)

// M7: what every service opens its database with refuses another release's schema.
func TestM7ServicesOpenNoDatabaseOfAnotherRelease(t *testing.T) {
	t.Parallel()
	pool := schematest.Empty(t)
	cfg := &Config{}
	cfg.Database.URL = pool.Config().ConnString()
	_, err := openDatabase(t.Context(), cfg)
	require.ErrorIs(t, err, schema.ErrVersion)
	require.NoError(t, schema.Migrate(t.Context(), pool))
	opened, err := openDatabase(t.Context(), cfg)
	require.NoError(t, err)
	opened.Close()
}
