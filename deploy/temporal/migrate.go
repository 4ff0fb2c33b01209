package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/tools/common/schema"
	"go.temporal.io/server/tools/sql"
)

type migrateCommand struct{}

// Help is shown by --help.
func (migrateCommand) Help() string {
	return `Run it before the first start, and before that of a newer release: all servers are
stopped then. Safe to run again: what is up to date stays as it is. SQLite needs none: its
file is made at the first start.`
}

func (migrateCommand) Run(r *run) error {
	if r.cfg.Database.URLFile == "" {
		return errors.New("there is no PostgreSQL in the configuration (database.url_file)")
	}
	at, err := r.cfg.postgresURL()
	if err != nil {
		return err
	}
	main, visibility, err := r.cfg.postgres()
	if err != nil {
		return err
	}
	for _, db := range []struct {
		*config.SQL
		schema string
	}{{main, "postgresql/v12/temporal"}, {visibility, "postgresql/v12/visibility"}} {
		if err := ensureDatabase(r, at, db.DatabaseName); err != nil {
			return fmt.Errorf("database %s: %w", db.DatabaseName, err)
		}
		if err := migrate(r, db.SQL, db.schema); err != nil {
			return fmt.Errorf("database %s: %w", db.DatabaseName, err)
		}
	}
	return nil
}

// ensureDatabase makes a database where there is none; the role needs CREATEDB for that.
func ensureDatabase(ctx context.Context, at *pgx.ConnConfig, name string) error {
	own := at.Copy()
	own.Database = name
	db, err := pgx.ConnectConfig(ctx, own)
	if err == nil {
		return db.Close(ctx)
	}
	const noSuchDatabase = "3D000"
	var problem *pgconn.PgError
	if !errors.As(err, &problem) || problem.Code != noSuchDatabase {
		return err
	}
	own.Database = "postgres"
	if db, err = pgx.ConnectConfig(ctx, own); err != nil {
		return err
	}
	_, err = db.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize())
	return errors.Join(err, db.Close(ctx))
}

func migrate(r *run, cfg *config.SQL, name string) error {
	db, err := sql.NewConnection(cfg, logger{r.log})
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.ReadSchemaVersion(); err != nil { // there is none yet
		if err := schema.NewSetupSchemaTask(db, &schema.SetupConfig{InitialVersion: "0.0"}, logger{r.log}).Run(); err != nil {
			return err
		}
	}
	return schema.NewUpdateSchemaTask(db, &schema.UpdateConfig{DBName: cfg.DatabaseName, SchemaName: name}, logger{r.log}).Run()
}
