package schema

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// right is what a role may do with a table.
type right struct{ what, table string }

// mayStart is what every service reads at its start: which schema the database has.
var mayStart = []right{{"SELECT (version_id, is_applied)", "goose_db_version"}, {"SELECT (oldest_release)", "schema_compatibility"}}

// metadataRights are what the metadata service needs, table by table: guests' own words and
// names. A column that its query names and that is not here fails
// TestLowTheMetadataServiceNeedsLittleOfTheDatabase.
var metadataRights = []right{
	{"SELECT (id, number, project_id, name, hostname, launch_index, availability_zone, reservation_id, flavor, image_id, metadata, key_name, key_data, user_data, networks, deleted_at)", "servers"},
	{"SELECT (server_id, id, role, index, device_name, bus, encrypted, tag)", "server_disks"},
	{"SELECT (server_id, id, share_id, tag, created_at)", "server_shares"},
	{"SELECT (network_id, address, server_id, project_id)", "local_ports"},
}

// consoleProxyRights are what the console proxy needs: to take tokens, and to know where their servers are. A column
// that its queries name and that is not here fails TestTheConsoleProxyNeedsLittle.
var consoleProxyRights = []right{
	{"SELECT (hash, server_id, host_id, type, expires_at), DELETE", "console_tokens"},
	{"SELECT (id, host_id, deleted_at)", "servers"},
	{"SELECT (id, name, agent_url)", "hosts"},
	{"SELECT (serial, host_id, revoked_at, not_after)", "host_certificates"},
}

// GrantMetadata lets a role do what the metadata service does, as grant says.
func GrantMetadata(ctx context.Context, pool *pgxpool.Pool, role string) error {
	return grant(ctx, pool, role, metadataRights)
}

// GrantConsoleProxy lets a role do what the console proxy does, as grant says.
func GrantConsoleProxy(ctx context.Context, pool *pgxpool.Pool, role string) error {
	return grant(ctx, pool, role, consoleProxyRights)
}

// grant gives a role rights, and takes every other right to tables of this database that it was
// given. The role must exist and be no superuser, nor the owner of the tables: those can do
// anything. It may run again.
func grant(ctx context.Context, pool *pgxpool.Pool, role string, rights []right) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		var mighty bool
		err := tx.QueryRow(ctx, `SELECT rolsuper OR EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
				WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p') AND pg_has_role(r.oid, c.relowner, 'USAGE'))
			FROM pg_roles r WHERE rolname = $1`, role).Scan(&mighty)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return fmt.Errorf("there is no role %s: create it first (CREATE ROLE … LOGIN)", role)
		case err != nil:
			return fmt.Errorf("schema: %w", err)
		case mighty:
			return fmt.Errorf("role %s is a superuser or owns strongroom's tables: it can do anything, whatever it is granted", role)
		}
		name := pgx.Identifier{role}.Sanitize()
		statements := []string{
			"REVOKE ALL ON ALL TABLES IN SCHEMA public FROM " + name,
			"REVOKE ALL ON ALL SEQUENCES IN SCHEMA public FROM " + name,
			"GRANT USAGE ON SCHEMA public TO " + name,
		}
		for _, r := range slices.Concat(mayStart, rights) {
			statements = append(statements, fmt.Sprintf("GRANT %s ON %s TO %s", r.what, r.table, name))
		}
		for _, statement := range statements {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return fmt.Errorf("schema: %w", err)
			}
		}
		return nil
	})
}
