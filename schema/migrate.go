package schema

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
)

// Migrations are the files that bring a database to this release's schema.
//
//go:embed migrations/*.sql
var Migrations embed.FS

// Migrate brings the database up to this release's schema. Several processes
// may call it at once: one migrates, the others wait.
func Migrate(ctx context.Context, pool *pgxpool.Pool) error {
	return withProvider(pool, func(p *goose.Provider) error {
		_, err := p.Up(ctx)
		return err
	})
}

// Revert takes the schema down to a version; 0 empties the database.
func Revert(ctx context.Context, pool *pgxpool.Pool, version int64) error {
	return withProvider(pool, func(p *goose.Provider) error {
		_, err := p.DownTo(ctx, version)
		return err
	})
}

func withProvider(pool *pgxpool.Pool, use func(*goose.Provider) error) error {
	db := stdlib.OpenDBFromPool(pool)
	defer func() { _ = db.Close() }()
	p, err := provider(db)
	if err != nil {
		return err
	}
	if err := use(p); err != nil {
		return fmt.Errorf("schema: %w", err)
	}
	return nil
}

func provider(db *sql.DB) (*goose.Provider, error) {
	dir, err := fs.Sub(Migrations, "migrations")
	if err != nil {
		return nil, err
	}
	locker, err := newLocker()
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(goose.DialectPostgres, db, dir, goose.WithSessionLocker(locker))
}
