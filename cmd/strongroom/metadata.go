package main

import (
	"fmt"

	"strongroom/api/metadata"
	"strongroom/schema"
)

type metadataCommand struct{}

// Help is shown by --help.
func (metadataCommand) Help() string {
	return `Serves the OpenStack metadata API to Neutron's metadata agent, which tells it by
signed headers which server asks. What guests say ends up here, so it is a
process of its own: it needs the database and the shared secret, and knows no
password, no token and no key of any disk.`
}

func (metadataCommand) Run(r *run) error {
	cfg, err := r.config()
	if err != nil {
		return err
	}
	secret, err := secretFile(cfg.Metadata.SharedSecret)
	if err != nil {
		return fmt.Errorf("metadata.proxy_shared_secret: %w", err)
	}
	if len(secret) == 0 {
		return fmt.Errorf("metadata.proxy_shared_secret: %s is empty", cfg.Metadata.SharedSecret)
	}
	pool, err := openDatabase(r, cfg, otherConnections)
	if err != nil {
		return err
	}
	defer pool.Close()
	handler := metadata.New(metadata.Config{Servers: schema.Metadata{Pool: pool}, Secret: secret, Logger: r.log})
	return serve(r, "metadata", cfg.Metadata.Listen, handler)
}
