package schema

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// metadataReads is what the metadata service reads, table by table: guests' own words and
// names, and which schema the database has. A column that its query names and that is not
// here fails TestMetadataReadsWithItsRole.
var metadataReads = []struct{ table, columns string }{
	{"servers", "id, number, project_id, name, hostname, launch_index, availability_zone, reservation_id, flavor, image_id, metadata, key_name, key_data, user_data, networks, deleted_at"},
	{"server_disks", "server_id, id, role, index, device_name, bus, encrypted, tag"},
	{"server_shares", "server_id, id, share_id, tag, created_at"},
	{"goose_db_version", "version_id, is_applied"},
	{"schema_compatibility", "oldest_release"},
}

// GrantMetadata lets a role read what the metadata service reads, and takes every other
// right to tables of this database that it was given. The role must exist and be no
// superuser, nor the owner of the tables: those can do anything. It may run again.
func GrantMetadata(ctx context.Context, pool *pgxpool.Pool, role string) error {
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
		for _, read := range metadataReads {
			statements = append(statements, fmt.Sprintf("GRANT SELECT (%s) ON %s TO %s", read.columns, read.table, name))
		}
		for _, statement := range statements {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return fmt.Errorf("schema: %w", err)
			}
		}
		return nil
	})
}
