// Package schematest gives tests a real PostgreSQL database of their own.
package schematest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"strongroom/schema"
)

// URLVariable names the environment variable that points tests at a server.
// `./task test` starts one and sets it.
const URLVariable = "STRONGROOM_TEST_POSTGRES"

// Empty gives a new database with nothing in it, dropped when the test ends.
func Empty(t testing.TB) *pgxpool.Pool {
	t.Helper()
	server := os.Getenv(URLVariable)
	if server == "" {
		if os.Getenv("CI") != "" {
			t.Fatalf("%s is not set: run the tests through ./task test", URLVariable)
		}
		t.Skipf("needs PostgreSQL: set %s, or run ./task test", URLVariable)
	}
	ctx := context.Background()
	admin, err := pgxpool.New(ctx, server)
	require.NoError(t, err)
	t.Cleanup(admin.Close)
	name := "t_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	_, err = admin.Exec(ctx, "CREATE DATABASE "+name)
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = admin.Exec(ctx, fmt.Sprintf("DROP DATABASE IF EXISTS %s WITH (FORCE)", name)) })

	pool, err := pgxpool.New(ctx, database(t, server, name))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// New gives a new database with this release's schema.
func New(t testing.TB) *pgxpool.Pool {
	t.Helper()
	pool := Empty(t)
	require.NoError(t, schema.Migrate(context.Background(), pool))
	return pool
}

func database(t testing.TB, server, name string) string {
	t.Helper()
	u, err := url.Parse(server)
	require.NoError(t, err)
	u.Path = "/" + name
	return u.String()
}
