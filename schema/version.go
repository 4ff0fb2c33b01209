package schema

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrVersion says that a database's schema is not the one that this release works with.
var ErrVersion = errors.New("the database has another schema than this release needs")

// undefinedTable is PostgreSQL's code for a relation that is not there.
const undefinedTable = "42P01"

// CheckVersion refuses a database whose schema is older than this release's, or newer and
// not made for it: a service would miss columns in the middle of operations (M7). A newer
// schema names the oldest release that can work on it, so that a control worker of the
// version before can be started to finish what began on it. The error is an ErrVersion and
// says what to run.
func CheckVersion(ctx context.Context, pool *pgxpool.Pool) error {
	want, err := newestMigration()
	if err != nil {
		return err
	}
	var got int64
	err = pool.QueryRow(ctx, `SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied`).Scan(&got)
	if failed := (*pgconn.PgError)(nil); errors.As(err, &failed) && failed.Code == undefinedTable {
		got, err = 0, nil
	}
	switch {
	case err != nil:
		return fmt.Errorf("schema: %w", err)
	case got == 0:
		return fmt.Errorf("%w: it has none yet; run strongroom migrate", ErrVersion)
	case got < want:
		return fmt.Errorf("%w: it has version %d, needed is %d; run strongroom migrate", ErrVersion, got, want)
	case got > want:
		var oldest int64
		if err := pool.QueryRow(ctx, `SELECT oldest_release FROM schema_compatibility`).Scan(&oldest); err != nil {
			return fmt.Errorf("schema: %w", err)
		}
		if oldest <= want {
			return nil
		}
		return fmt.Errorf("%w: it has version %d, made for releases that bring %d or a later one, and this one brings %d; install the release that migrated it", ErrVersion, got, oldest, want)
	}
	return nil
}

// newestMigration is the version of the last migration that this release brings.
func newestMigration() (newest int64, err error) {
	files, err := fs.Glob(Migrations, "migrations/*.sql")
	if err != nil {
		return 0, err
	}
	for _, file := range files {
		number, _, _ := strings.Cut(strings.TrimPrefix(file, "migrations/"), "_")
		version, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("schema: %s: %w", file, err)
		}
		newest = max(newest, version)
	}
	return newest, nil
}
