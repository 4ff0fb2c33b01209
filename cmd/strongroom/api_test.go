package main

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

// M2: the api has as many connections as the configuration says, and no statement of a
// request lasts for ever.
func TestM2ConnectionsAreConfigured(t *testing.T) {
	t.Parallel()
	limits := apiConnections
	pool := func(url string, change func(*Config)) *pgxpool.Config {
		t.Helper()
		cfg, err := loadConfig("")
		require.NoError(t, err)
		cfg.Database.URL = url
		change(cfg)
		config, err := pgxpool.ParseConfig(url)
		require.NoError(t, err)
		limits(cfg, config)
		return config
	}
	const url = "postgres://u@127.0.0.1/d"
	byDefault := pool(url, func(*Config) {})
	require.EqualValues(t, 30, byDefault.MaxConns)
	require.Equal(t, "30s", byDefault.ConnConfig.RuntimeParams["statement_timeout"])
	require.EqualValues(t, 7, pool(url, func(c *Config) { c.API.Connections = 7 }).MaxConns)
	limits = otherConnections // of gateways and the metadata service
	others := pool(url, func(c *Config) { c.API.Connections = 7 })
	require.EqualValues(t, 10, others.MaxConns)
	require.Equal(t, "30s", others.ConnConfig.RuntimeParams["statement_timeout"])
	own := pool(url+"?pool_max_conns=3&statement_timeout=5s", func(*Config) {})
	require.EqualValues(t, 3, own.MaxConns)
	require.Equal(t, "5s", own.ConnConfig.RuntimeParams["statement_timeout"])
}
