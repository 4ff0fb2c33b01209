package main

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"strongroom/durable"
	"strongroom/schema"
	"strongroom/worker/pki"
)

type migrateCommand struct {
	FirstVolumeType bool `hidden:"" help:"Make the type that api.volume_type names, where no type was ever made."`

	AdoptNamespace bool `help:"Make temporal.namespace the database's own, after its old one was lost: operations that ran there are given up."`
}

// Help is shown by --help.
func (migrateCommand) Help() string {
	return `Brings the database up to this release's schema, and makes the search attributes
of operations known to Temporal's namespace: both services must answer.

Safe to run at any time and from several places at once: one migrates, the
others wait, and what is up to date stays as it is.

The database knows in which namespace of Temporal its operations run, and control
workers refuse to start on another one. After the loss of Temporal, and only then, stop
all control workers and run "strongroom migrate --adopt-namespace": servers whose
operation was running show ERROR with a reason, and can be deleted.`
}

// registerTime bounds the wait for a Temporal that does not answer.
const registerTime = 30 * time.Second

func (m migrateCommand) Run(r *run) error {
	cfg, err := r.config()
	if err != nil {
		return err
	}
	pool, err := connectDatabase(r, cfg)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := schema.Migrate(r, pool); err != nil {
		return err
	}
	if m.FirstVolumeType {
		first := schema.InsertFirstVolumeTypeParams{ID: uuid.New(), Name: cfg.API.VolumeType, Description: new("Default Volume Type")}
		if err := schema.New(pool).InsertFirstVolumeType(r, first); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(r, registerTime)
	defer cancel()
	// The database is migrated by now: it needs no Temporal.
	const away = "the database is up to date; run migrate again when Temporal is back: %w"
	temporal, err := dialTemporal(cfg, cfg.own(r, pki.Control), durable.Keys{}, r.log, durable.Dial)
	if err != nil {
		return fmt.Errorf(away, err)
	}
	defer temporal.Close()
	if err := durable.RegisterSearchAttributes(ctx, temporal, cfg.Temporal.Namespace); err != nil {
		return fmt.Errorf(away, fmt.Errorf("no answer from Temporal at %s: %w", cfg.Temporal.Address, err))
	}
	if !m.AdoptNamespace {
		return nil
	}
	id, err := durable.NamespaceID(ctx, temporal, cfg.Temporal.Namespace)
	if err != nil {
		return err
	}
	return schema.AdoptNamespace(r, pool, id, cfg.Temporal.Namespace)
}
