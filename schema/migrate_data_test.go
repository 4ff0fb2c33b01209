package schema_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"strongroom/schema"
	"strongroom/schema/schematest"
)

// unused are numbers that no migration has. 4 never had one, and databases are past it:
// goose refuses a migration that comes after later ones.
var unused = []int64{4}

// M7: the migrations' numbers have no gaps but known ones: a migration with a number that
// was left out would be refused by every database that is past it.
func TestM7MigrationsHaveNoGaps(t *testing.T) {
	t.Parallel()
	versions, err := schema.Versions(schematest.Empty(t))
	require.NoError(t, err)
	for n := int64(1); n < versions[len(versions)-1]; n++ {
		if !slices.Contains(versions, n) {
			require.Contains(t, unused, n, "no migration has this number")
		}
	}
}

// values are what a row has in a column of a type that needs one. The same in all tables,
// so that foreign keys hold.
var values = map[string]string{
	"uuid": "'00000000-0000-4000-8000-000000000001'", "text": "'x'", "character varying": "'x'", "bigint": "1", "integer": "1",
	"double precision": "1", "numeric": "1", "boolean": "false", "jsonb": "'{}'", "timestamp with time zone": "now()", "ARRAY": "'{}'", "bytea": "'x'",
}

// more are columns that rows need beside those that have no default, by table.
var more = map[string]map[string]string{
	"credentials":   {"sealed": "'x'"},
	"server_shares": {"status": "'active'"},
	"notifications": {"priority": "'INFO'"},
	"operations":    {"server_id": values["uuid"]},
	"server_groups": {"policy": "'affinity'"},
	"servers":       {"host_id": values["uuid"]},
	"ledger":        {"owner_kind": "'server'"},
}

// fill puts a row into each table that has none.
func fill(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	tables := texts(t, pool, `SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'
		AND table_type = 'BASE TABLE' AND table_name <> 'goose_db_version' ORDER BY 1`)
	var statements strings.Builder
	statements.WriteString("SET LOCAL session_replication_role = replica;\n") // in any order: all of them hold in the end
	for _, table := range tables {
		if rows(t, pool, table) == "0" {
			statements.WriteString(row(t, pool, table))
		}
	}
	_, err := pool.Exec(t.Context(), "BEGIN; "+statements.String()+" COMMIT")
	require.NoError(t, err, statements.String())
}

func row(t *testing.T, pool *pgxpool.Pool, table string) string {
	t.Helper()
	var names, row []string
	for _, c := range texts(t, pool, fmt.Sprintf(`SELECT column_name || ' ' || (is_nullable = 'NO' AND column_default IS NULL
		AND is_identity = 'NO' AND is_generated = 'NEVER')::text || ' ' || data_type
		FROM information_schema.columns WHERE table_schema = 'public' AND table_name = '%s' ORDER BY ordinal_position`, table)) {
		column := strings.SplitN(c, " ", 3)
		value, needed := more[table][column[0]]
		if !needed {
			needed, value = column[1] == "true", values[column[2]]
			require.False(t, needed && value == "", "no value for the column %s of the table %s, of the type %s", column[0], table, column[2])
		}
		if needed {
			names, row = append(names, `"`+column[0]+`"`), append(row, value)
		}
	}
	if len(names) == 0 {
		return fmt.Sprintf("INSERT INTO %s DEFAULT VALUES;\n", table)
	}
	return fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s);\n", table, strings.Join(names, ", "), strings.Join(row, ", "))
}

func rows(t *testing.T, pool *pgxpool.Pool, table string) string {
	t.Helper()
	return texts(t, pool, "SELECT count(*)::text FROM "+table)[0]
}

// counts gives the number of rows of each table.
func counts(t *testing.T, pool *pgxpool.Pool) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, table := range texts(t, pool, `SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'
		AND table_type = 'BASE TABLE' AND table_name <> 'goose_db_version'`) {
		out[table] = rows(t, pool, table)
	}
	return out
}

// M7: with a row in each table, each migration goes up, down and up again, and keeps the
// rows of the tables that both have.
func TestM7EveryMigrationGoesUpAndDownWithData(t *testing.T) {
	t.Parallel()
	pool := schematest.Empty(t)
	versions, err := schema.Versions(pool)
	require.NoError(t, err)
	kept := func(before map[string]string) {
		t.Helper()
		for table, n := range counts(t, pool) {
			if was, known := before[table]; known {
				require.Equal(t, was, n, table)
			}
		}
	}
	for i, version := range versions {
		if i > 0 {
			fill(t, pool)
		}
		before := counts(t, pool)
		require.NoError(t, schema.MigrateTo(t.Context(), pool, version))
		kept(before)
		fill(t, pool)
		if i == 0 {
			continue
		}
		before = counts(t, pool)
		require.NoError(t, schema.Revert(t.Context(), pool, versions[i-1]), "from version %d", version)
		kept(before)
		before = counts(t, pool)
		require.NoError(t, schema.MigrateTo(t.Context(), pool, version), "to version %d again", version)
		kept(before)
	}
	for i := len(versions) - 1; i >= 0; i-- {
		fill(t, pool)
		before := counts(t, pool)
		require.NoError(t, schema.Revert(t.Context(), pool, versions[i]-1))
		kept(before)
	}
	require.Empty(t, counts(t, pool))
	require.NoError(t, schema.Migrate(t.Context(), pool))
}
