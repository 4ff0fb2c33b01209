package main

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"strongroom/worker/gateway"
	"strongroom/worker/pki"
)

type gatewayCommand struct{}

// Help is shown by --help.
func (gatewayCommand) Help() string {
	return `Runs beside the api, as many as you like. Compute hosts have no database, no password
and no token: they report themselves here, and ask here for the passphrases and images
that an operation on one of their servers needs, over mutual TLS. Load balancers in
front of it must pass TCP on, not TLS.

The certificate authority is in the folder gateway.authority; the first start makes it.
Copy the folder to the machines of further gateways and apis, and keep a copy: without
it, all hosts must enroll again. strongroom host token lets a host enroll, strongroom
host revoke locks one out.`
}

func (gatewayCommand) Run(r *run) error {
	cfg, err := r.config()
	if err != nil {
		return err
	}
	pool, err := openDatabase(r, cfg)
	if err != nil {
		return err
	}
	defer pool.Close()
	authorities, err := sealed(cfg, pool)
	if err != nil {
		return err
	}
	s := &services{Config: cfg, run: r, authorities: authorities}
	keys, err := s.keys()
	if err != nil {
		return err
	}
	images, err := s.images()
	if err != nil {
		return err
	}
	authority, err := cfg.authority()
	if err != nil {
		return err
	}
	own, err := authority.Process(pki.Gateway)
	if err != nil {
		return err
	}
	listener, err := listen("gateway", cfg.Gateway.Listen)
	if err != nil {
		return err
	}
	server := &gateway.Server{Pool: pool, Authority: authority, Keys: keys, Images: images, Logger: r.log}
	return serveOn(r, "gateway", secured(listener, own), server.Handler(), streaming)
}

// secured lets in those alone who speak TLS.
func secured(listener net.Listener, own *pki.Identity) net.Listener {
	return tls.NewListener(listener, own.Server())
}

// streaming lifts the limits of time for a server whose handler gives each read and write
// of an image its own.
func streaming(server *http.Server) {
	server.ReadTimeout, server.WriteTimeout = 0, 0
	server.IdleTimeout = 5 * time.Minute
	quiet(server)
}

// quiet leaves broken handshakes out of the log: whoever looks whether the port is open
// makes one.
func quiet(server *http.Server) {
	server.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
}

// authority opens the certificate authority; the first of gateways and apis makes it.
func (cfg *Config) authority() (*pki.Authority, error) {
	a, err := pki.Ensure(cfg.Gateway.Authority)
	if err != nil {
		return nil, fmt.Errorf("gateway.authority: %w", err)
	}
	return a, nil
}
