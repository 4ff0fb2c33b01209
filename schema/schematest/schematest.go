// Package schematest gives tests a real PostgreSQL database of their own.
package schematest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"sync"
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
	return create(t, "template1")
}

// New gives a new database with this release's schema, dropped when the test ends.
func New(t testing.TB) *pgxpool.Pool {
	t.Helper()
	return create(t, template(t))
}

// server gives the URL of the tests' server, and skips the test where there is none.
func server(t testing.TB) string {
	t.Helper()
	server := os.Getenv(URLVariable)
	if server == "" {
		if os.Getenv("CI") != "" {
			t.Fatalf("%s is not set: run the tests through ./task test", URLVariable)
		}
		t.Skipf("needs PostgreSQL: set %s, or run ./task test", URLVariable)
	}
	return server
}

// connect gives connections that are closed when the test ends.
func connect(t testing.TB, server string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(context.Background(), server)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// administration is how the databases of all tests are made and dropped. It is never closed.
var administration = sync.OnceValues(func() (*pgxpool.Pool, error) { return pgxpool.New(context.Background(), os.Getenv(URLVariable)) })

func admin(t testing.TB) *pgxpool.Pool {
	t.Helper()
	server(t)
	pool, err := administration()
	require.NoError(t, err)
	return pool
}

// create makes a copy of a database for the test.
func create(t testing.TB, template string) *pgxpool.Pool {
	t.Helper()
	ctx, pool := context.Background(), admin(t)
	name := "t_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	// The tests' server writes nothing to a disk, so that the checkpoints of a copy of files cost less than its pages in the log.
	_, err := pool.Exec(ctx, fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s STRATEGY file_copy", name, template))
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = pool.Exec(ctx, fmt.Sprintf("DROP DATABASE IF EXISTS %s WITH (FORCE)", name)) })
	return connect(t, database(t, server(t), name))
}

// template names the database with this release's schema that new ones are copies of.
// The first test that needs it makes it, and what a killed one left half made is made
// again.
func template(t testing.TB) string {
	t.Helper()
	ctx := context.Background()
	name := fmt.Sprintf("schema_%x", migrations(t))
	only, err := admin(t).Acquire(ctx)
	require.NoError(t, err)
	defer only.Release()
	_, err = only.Exec(ctx, "SELECT pg_advisory_lock(hashtext($1))", name)
	require.NoError(t, err)
	defer func() { _, _ = only.Exec(ctx, "SELECT pg_advisory_unlock(hashtext($1))", name) }()
	var made bool
	require.NoError(t, only.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1 AND datistemplate)", name).Scan(&made))
	if made {
		return name
	}
	for _, command := range []string{"DROP DATABASE IF EXISTS %s", "CREATE DATABASE %s"} {
		_, err = only.Exec(ctx, fmt.Sprintf(command, name))
		require.NoError(t, err)
	}
	pool, err := pgxpool.New(ctx, database(t, server(t), name))
	require.NoError(t, err)
	err = schema.Migrate(ctx, pool)
	pool.Close() // one that is in use cannot be copied
	require.NoError(t, err)
	_, err = only.Exec(ctx, fmt.Sprintf("ALTER DATABASE %s IS_TEMPLATE true", name))
	require.NoError(t, err)
	return name
}

// migrations gives a sum that changes with every migration.
func migrations(t testing.TB) []byte {
	t.Helper()
	sum := sha256.New()
	require.NoError(t, fs.WalkDir(schema.Migrations, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := schema.Migrations.ReadFile(path)
		fmt.Fprintf(sum, "%s %d\n%s", path, len(text), text)
		return err
	}))
	return sum.Sum(nil)[:8]
}

func database(t testing.TB, server, name string) string {
	t.Helper()
	u, err := url.Parse(server)
	require.NoError(t, err)
	u.Path = "/" + name
	return u.String()
}
