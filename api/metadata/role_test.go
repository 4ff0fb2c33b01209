package metadata_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"strongroom/api/metadata"
	"strongroom/schema"
)

// asRole gives connections that have the rights of a new role, which ends with the test.
func (k *kit) asRole() (*pgxpool.Pool, string) {
	k.t.Helper()
	role := "metadata_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	k.exec("CREATE ROLE " + role)
	k.t.Cleanup(func() {
		_, err := k.pool.Exec(context.Background(), fmt.Sprintf("DROP OWNED BY %s; DROP ROLE %[1]s", role))
		require.NoError(k.t, err)
	})
	config := k.pool.Config().Copy()
	// The tests' server lets nobody else log in.
	config.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, "SET SESSION AUTHORIZATION "+role)
		return err
	}
	pool, err := pgxpool.NewWithConfig(k.t.Context(), config)
	require.NoError(k.t, err)
	k.t.Cleanup(pool.Close)
	return pool, role
}

func (k *kit) exec(statement string) {
	_, err := k.pool.Exec(k.t.Context(), statement)
	require.NoError(k.t, err)
}

// The service starts and answers with a role that reads what it needs. That role reads no
// credential, no ledger, none of the other columns, and writes nothing.
func TestLowTheMetadataServiceNeedsLittleOfTheDatabase(t *testing.T) {
	t.Parallel()
	k := setup(t)
	pool, role := k.asRole()
	k.http.Close()
	k.http = httptest.NewServer(metadata.New(metadata.Config{Servers: schema.Metadata{Pool: pool}, Secret: secret}))
	t.Cleanup(k.http.Close)
	status, _, _ := k.get("/openstack/latest/meta_data.json", nil)
	require.NotEqual(t, http.StatusOK, status, "it was granted nothing yet")
	k.exec("GRANT ALL ON ALL TABLES IN SCHEMA public TO " + role) // as somebody did before
	for range 2 {
		require.NoError(t, schema.GrantMetadata(t.Context(), k.pool, role))
	}
	require.NoError(t, schema.CheckVersion(t.Context(), pool), "with which it starts")
	for path, says := range map[string]string{
		"/openstack/latest/meta_data.json": `"name": "Vault"`, "/openstack/latest/user_data": "#!/bin/sh", "/latest/meta-data/hostname": "vault",
	} {
		status, body, _ := k.get(path, nil)
		require.Equal(t, http.StatusOK, status, "%s: %s", path, body)
		require.Contains(t, strings.ReplaceAll(body, `":"`, `": "`), says, path)
	}

	rows, err := k.pool.Query(t.Context(), "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'")
	require.NoError(t, err)
	tables := map[string]bool{}
	for rows.Next() {
		var table string
		require.NoError(t, rows.Scan(&table))
		tables[table] = true
	}
	require.True(t, tables["credentials"] && tables["ledger"])
	refused := func(statement string) {
		t.Helper()
		_, err := pool.Exec(t.Context(), statement)
		var denied *pgconn.PgError
		require.ErrorAs(t, err, &denied, statement)
		require.Equal(t, "42501", denied.Code, "%s: %s", statement, denied.Message)
	}
	for table := range tables {
		if table != "schema_compatibility" { // all of whose one column it reads
			refused("SELECT * FROM " + table + " LIMIT 0")
		}
		refused("DELETE FROM " + table)
		refused("INSERT INTO " + table + " DEFAULT VALUES")
		refused("TRUNCATE " + table)
	}
	refused("SELECT current_operation FROM servers")
	refused("SELECT encryption_secret_uuid FROM server_disks")
	refused("UPDATE servers SET name = 'x'")
	refused("CREATE TABLE mine (n int)")
}

// Who can do anything is granted nothing, and a role that is not there is not made.
func TestTheMetadataRoleIsNoSuperuser(t *testing.T) {
	t.Parallel()
	k := setup(t)
	err := schema.GrantMetadata(t.Context(), k.pool, "nobody")
	require.ErrorContains(t, err, "there is no role nobody")
	err = schema.GrantMetadata(t.Context(), k.pool, k.pool.Config().ConnConfig.User)
	require.ErrorContains(t, err, "can do anything")
}
