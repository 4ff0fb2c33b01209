package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"time"

	"strongroom/worker/gateway"
	"strongroom/worker/pki"
)

type gatewayCommand struct{}

// imagePatience is how long a gateway that is told to stop lets images through to their
// end. One that is cut off begins again.
const imagePatience = 10 * time.Minute

// Help is shown by --help.
func (gatewayCommand) Help() string {
	return `Runs beside the api, as many as you like. Compute hosts have no database, no password
and no token: they report themselves here, and ask here for the passphrases, images and
objects that an operation on one of their servers needs, over mutual TLS. Load balancers in
front of it must pass TCP on, not TLS.

The certificate authority is in the folder gateway.authority; the first start makes it.
Copy the folder to the machines of further gateways and apis, and keep a copy: without
it, all hosts must enroll again. strongroom host token lets a host enroll, strongroom
host revoke locks one out.`
}

func (gatewayCommand) Run(r *run) error {
	cfg, pool, err := r.database(otherConnections)
	if err != nil {
		return err
	}
	defer pool.Close()
	s, err := r.services(cfg, pool)
	if err != nil {
		return err
	}
	keys, err := s.keys()
	if err != nil {
		return err
	}
	images, err := s.images()
	if err != nil {
		return err
	}
	objects, err := s.objects()
	if err != nil {
		return err
	}
	shares, err := s.shares()
	if err != nil {
		return err
	}
	authority, err := pki.Ensure(cfg.Gateway.Authority)
	if err != nil {
		return fmt.Errorf("gateway.authority: %w", err)
	}
	if err := gateway.KeepAuthority(r, pool, authority); err != nil {
		return fmt.Errorf("gateway.authority %s: %w", cfg.Gateway.Authority, err)
	}
	var endorser *pki.Endorser
	if cfg.Gateway.Endorser != "" {
		if endorser, err = pki.EnsureEndorser(cfg.Gateway.Endorser); err != nil {
			return fmt.Errorf("gateway.endorser: %w", err)
		}
	}
	own, err := authority.Process(pki.Gateway)
	if err != nil {
		return err
	}
	go authority.Renew(r, own, pki.Gateway)
	listener, err := listen("gateway", cfg.Gateway.Listen)
	if err != nil {
		return err
	}
	server := &gateway.Server{Pool: pool, Authority: authority, Keys: keys, Seal: s.box, Images: images, Objects: objects.Blobs, Shares: shares, Endorser: endorser, Logger: r.log}
	return serveUntil(r, "gateway", imagePatience, secured(listener, own), server.Handler(), quiet)
}

// secured lets in those alone who speak TLS.
func secured(listener net.Listener, own *pki.Identity) net.Listener {
	return tls.NewListener(listener, own.Server())
}

// quiet leaves broken handshakes out of the log: whoever looks whether the port is open
// makes one.
func quiet(server *http.Server) {
	server.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
}

// authority opens the certificate authority, which the first gateway made.
func (cfg *Config) authority() (*pki.Authority, error) {
	a, err := pki.Open(cfg.Gateway.Authority)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("gateway.authority: there is none in %s: start strongroom gateway, or strongroom authority make, which make it, or copy the folder of a machine where one runs", cfg.Gateway.Authority)
	}
	if err != nil {
		return nil, fmt.Errorf("gateway.authority: %w", err)
	}
	return a, nil
}
