package main

import "strongroom/schema"

type migrateCommand struct{}

// Help is shown by --help.
func (migrateCommand) Help() string {
	return `Safe to run at any time and from several places at once: one migrates, the
others wait, and a database that is up to date stays as it is.`
}

func (migrateCommand) Run(r *run) error {
	cfg, err := r.config()
	if err != nil {
		return err
	}
	pool, err := openDatabase(r, cfg)
	if err != nil {
		return err
	}
	defer pool.Close()
	return schema.Migrate(r, pool)
}
