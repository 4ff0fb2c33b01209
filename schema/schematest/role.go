package schematest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

// AsRole gives connections that have the rights of a new role, which has none yet and ends with the test.
func AsRole(t testing.TB, pool *pgxpool.Pool) (limited *pgxpool.Pool, role string) {
	t.Helper()
	role = "role_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	_, err := pool.Exec(t.Context(), "CREATE ROLE "+role)
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := pool.Exec(context.Background(), fmt.Sprintf("DROP OWNED BY %s; DROP ROLE %[1]s", role))
		require.NoError(t, err)
	})
	config := pool.Config().Copy()
	// The tests' server lets nobody else log in.
	config.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, "SET SESSION AUTHORIZATION "+role)
		return err
	}
	limited, err = pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(limited.Close)
	return limited, role
}

// Refused requires that a role lacks the right to a statement.
func Refused(t testing.TB, limited *pgxpool.Pool, statement string) {
	t.Helper()
	_, err := limited.Exec(t.Context(), statement)
	var denied *pgconn.PgError
	require.ErrorAs(t, err, &denied, statement)
	require.Equal(t, "42501", denied.Code, "%s: %s", statement, denied.Message)
}

// Confined requires that a role reads no table and no view as a whole, writes to none and makes none. It may do what is named, in these very words.
func Confined(t testing.TB, pool, limited *pgxpool.Pool, may ...string) {
	t.Helper()
	named := func(kind string) []string {
		rows, err := pool.Query(t.Context(), "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' AND table_type = $1", kind)
		require.NoError(t, err)
		names, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		return names
	}
	tables, views := named("BASE TABLE"), named("VIEW")
	require.Subset(t, tables, []string{"credentials", "ledger", "servers", "console_tokens"})
	statements := []string{"CREATE TABLE mine (n int)"}
	for _, table := range slices.Concat(tables, views) {
		statements = append(statements, "SELECT * FROM "+table+" LIMIT 0", "DELETE FROM "+table, "INSERT INTO "+table+" DEFAULT VALUES")
	}
	for _, table := range tables { // of a view it is refused to everybody, and not for want of a right
		statements = append(statements, "TRUNCATE "+table)
	}
	require.Subset(t, statements, may)
	for _, statement := range statements {
		if !slices.Contains(may, statement) {
			Refused(t, limited, statement)
		}
	}
}
