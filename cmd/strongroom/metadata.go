package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/net/netutil"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"strongroom/api/metadata"
	"strongroom/compute"
	"strongroom/schema"
)

type metadataCommand struct{}

// Help is shown by --help.
func (metadataCommand) Help() string {
	return `Serves the OpenStack metadata API to Neutron's metadata agent, which tells it by
signed headers which server asks, and to guests on networks of strongroom's
own (metadata.local_port). What guests say ends up here, so it is a
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
	database := schema.Metadata{Pool: pool}
	service := metadata.Config{Servers: database, Secret: secret, Logger: r.log}
	serving, ctx := errgroup.WithContext(r)
	here := *r
	here.Context = ctx
	serving.Go(func() error { return serve(&here, "metadata", cfg.Metadata.Listen, metadata.New(service)) })
	if err := serveLocalGuests(&here, cfg, database, service, serving.Go); err != nil {
		serving.Go(func() error { return err })
	}
	return serving.Wait()
}

// serveLocalGuests answers the guests of each of networks.local at its gateway: nobody stands between, and hosts let
// no guest send with an address that is not its own.
func serveLocalGuests(r *run, cfg *Config, database schema.Metadata, service metadata.Config, begin func(func() error)) error {
	if cfg.Networks.Backend != "local" || cfg.Metadata.LocalPort == 0 {
		return nil
	}
	networks, err := cfg.localNetworks()
	if err != nil {
		return err
	}
	for _, n := range networks {
		// The bridge may come later than this process, or go and come again.
		listening := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
			return errors.Join(c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_FREEBIND, 1) }), err)
		}}
		listener, err := listening.Listen(r, "tcp4", netip.AddrPortFrom(n.Gateway, uint16(cfg.Metadata.LocalPort)).String())
		if err != nil {
			return fmt.Errorf("metadata of network %s: %w", n.Name, err)
		}
		of := service
		of.Owner = func(ctx context.Context, address netip.Addr) (compute.ServerID, string, error) {
			return database.AddressOwner(ctx, n.ID, address)
		}
		begin(func() error {
			return serveOn(r, "metadata of network "+n.Name, netutil.LimitListener(listener, maxConnections), metadata.New(of))
		})
	}
	return nil
}
