package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"

	"strongroom/activities/image"
	imagelocal "strongroom/activities/image/local"
	"strongroom/activities/key"
	keylocal "strongroom/activities/key/local"
	"strongroom/durable"
)

func openDatabase(ctx context.Context, cfg *Config) (*pgxpool.Pool, error) {
	pool, err := pgxpool.New(ctx, cfg.Database.URL)
	if err != nil {
		return nil, fmt.Errorf("database.url: %w", err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("the database does not answer: %w", err)
	}
	return pool, nil
}

func clientConfig(cfg *Config, log *slog.Logger) durable.ClientConfig {
	return durable.ClientConfig{Address: cfg.Temporal.Address, Namespace: cfg.Temporal.Namespace, Logger: log}
}

func openKeys(cfg *Config) (key.Manager, error) {
	switch cfg.Keys.Backend {
	case "local":
		return keylocal.Open(cfg.Keys.Path, cfg.Keys.Master)
	default:
		return nil, fmt.Errorf("keys.backend %q is unknown: use local", cfg.Keys.Backend)
	}
}

func openImages(cfg *Config) (image.Library, error) {
	switch cfg.Images.Backend {
	case "local":
		return imagelocal.Open(imagelocal.Config{Dir: cfg.Images.Path})
	default:
		return nil, fmt.Errorf("images.backend %q is unknown: use local", cfg.Images.Backend)
	}
}
