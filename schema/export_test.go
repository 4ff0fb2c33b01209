package schema

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/pressly/goose/v3"
)

// MigrateTo brings the database up to a version.
func MigrateTo(ctx context.Context, pool *pgxpool.Pool, version int64) error {
	return withProvider(pool, func(p *goose.Provider) error {
		_, err := p.UpTo(ctx, version)
		return err
	})
}

// Versions are the versions of the migrations.
func Versions(pool *pgxpool.Pool) (all []int64, err error) {
	err = withProvider(pool, func(p *goose.Provider) error {
		for _, s := range p.ListSources() {
			all = append(all, s.Version)
		}
		return nil
	})
	return all, err
}
