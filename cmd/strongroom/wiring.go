package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.temporal.io/sdk/client"

	"strongroom/durable"
	"strongroom/schema"
	"strongroom/worker/gateway"
	"strongroom/worker/pki"
)

// backends are what every service of strongroom depends on.
type backends struct {
	*Config
	pool     *pgxpool.Pool
	temporal client.Client
}

// openBackends reads the configuration and connects, to Temporal under a name. dial is durable.Dial, or
// durable.DialLazily for a service that starts while Temporal is away; change alters the
// pool of connections to the database.
func (r *run) openBackends(as pki.Name, dial func(durable.ClientConfig) (client.Client, error), change ...poolChange) (*backends, error) {
	cfg, pool, err := r.database(change...)
	if err != nil {
		return nil, err
	}
	if err := keepsAuthority(r, cfg, pool); err != nil {
		pool.Close()
		return nil, err
	}
	temporal, err := dialTemporalAsControl(r, cfg, as, r.log, dial)
	if err != nil {
		pool.Close()
		return nil, err
	}
	return &backends{Config: cfg, pool: pool, temporal: temporal}, nil
}

// services opens the services that the configuration names, for a worker: it acts
// with the credentials of operations.
func (b *backends) services(r *run) (*services, error) { return r.services(b.Config, b.pool) }

// services opens them for any process that acts with the credentials in the database.
func (r *run) services(cfg *Config, pool *pgxpool.Pool) (*services, error) {
	authorities, err := sealed(cfg, pool, r.log)
	return &services{Config: cfg, run: r, authorities: authorities, box: authorities.Box, pool: pool}, err
}

func (b *backends) close() {
	b.temporal.Close()
	b.pool.Close()
}

// database reads the configuration and connects to the database, as openDatabase does.
func (r *run) database(change ...poolChange) (*Config, *pgxpool.Pool, error) {
	cfg, err := r.config()
	if err != nil {
		return nil, nil, err
	}
	pool, err := openDatabase(r, cfg, change...)
	return cfg, pool, err
}

// openDatabase connects to a database that has this release's schema.
func openDatabase(ctx context.Context, cfg *Config, change ...poolChange) (*pgxpool.Pool, error) {
	pool, err := connectDatabase(ctx, cfg, change...)
	if err != nil {
		return nil, err
	}
	if err := schema.CheckVersion(ctx, pool); err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}

// poolChange alters what database.url says of a pool of connections.
type poolChange func(*Config, *pgxpool.Config)

// connectDatabase connects to a database of any schema.
func connectDatabase(ctx context.Context, cfg *Config, change ...poolChange) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(cfg.Database.URL)
	if err != nil {
		return nil, fmt.Errorf("database.url: %w", err)
	}
	for _, c := range change {
		c(cfg, config)
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("database.url: %w", err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("the database does not answer: %w", err)
	}
	return pool, nil
}

// keepsAuthority fails where the certificate authority is not this cloud's: what is said
// through Temporal would be believed by nobody.
func keepsAuthority(ctx context.Context, cfg *Config, pool *pgxpool.Pool) error {
	authority, err := cfg.authority()
	if err != nil {
		return err
	}
	if err := gateway.KeepAuthority(ctx, pool, authority); err != nil {
		return fmt.Errorf("gateway.authority %s: %w", cfg.Gateway.Authority, err)
	}
	return nil
}

// dialTemporalAsControl connects to Temporal with the keys of the control plane, under a name.
func dialTemporalAsControl(ctx context.Context, cfg *Config, as pki.Name, log *slog.Logger, dial func(durable.ClientConfig) (client.Client, error)) (client.Client, error) {
	authority, err := cfg.authority()
	if err != nil {
		return nil, err
	}
	keys, err := gateway.TemporalKeys(authority)
	if err != nil {
		return nil, err
	}
	return dialTemporal(cfg, cfg.own(ctx, as), keys, log, dial)
}

// dialTemporal connects to Temporal with durable.Dial or durable.DialLazily. own gives the
// certificate of this process, where Temporal knows strongroom's own.
func dialTemporal(cfg *Config, own func() (*pki.Identity, error), keys durable.Keys, log *slog.Logger, dial func(durable.ClientConfig) (client.Client, error)) (client.Client, error) {
	tls, err := cfg.temporalTLS(own)
	if err != nil {
		return nil, err
	}
	temporal, err := dial(durable.ClientConfig{Address: cfg.Temporal.Address, Namespace: cfg.Temporal.Namespace, TLS: tls, Keys: keys, Logger: log})
	if err != nil {
		return nil, fmt.Errorf("no answer from Temporal at %s: %w", cfg.Temporal.Address, err)
	}
	return temporal, nil
}

func (cfg *Config) temporalTLS(own func() (*pki.Identity, error)) (*tls.Config, error) {
	in := cfg.Temporal.TLS
	files := durable.TLSFiles{Authority: in.Authority, Certificate: in.Certificate, Key: in.Key, ServerName: in.ServerName}
	if !in.Own {
		return files.Config()
	}
	if files != (durable.TLSFiles{}) {
		return nil, errors.New("temporal.tls: own goes without the other keys")
	}
	id, err := own()
	if err != nil {
		return nil, fmt.Errorf("temporal.tls.own: %w", err)
	}
	return id.Temporal(), nil
}

// own gives a process beside the authority its certificate, which is renewed until ctx ends.
func (cfg *Config) own(ctx context.Context, name pki.Name) func() (*pki.Identity, error) {
	return func() (*pki.Identity, error) {
		authority, err := cfg.authority()
		if err != nil {
			return nil, err
		}
		id, err := authority.Process(name)
		if err == nil {
			go authority.Renew(ctx, id, name)
		}
		return id, err
	}
}
