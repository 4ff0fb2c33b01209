package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"strongroom/api/console"
	"strongroom/compute"
	"strongroom/schema"
	"strongroom/worker/agent"
	"strongroom/worker/pki"
)

type consoleProxyCommand struct{}

// Help is shown by --help.
func (consoleProxyCommand) Help() string {
	return `Serves the consoles of servers to browsers, and to strongroom server console: who has a token of
the compute API gets a WebSocket to the console, once. The proxy connects to the agent of the
server's host over mutual TLS. Run as many as you like; a session ends with its proxy.

It needs little, since browsers reach it: a role of the database with a few rights (strongroom database
grant --for console-proxy), and a certificate in console_proxy.identity:

    umask 077; strongroom authority issue console-proxy > console-proxy.pem

Replace that before it ends, in 90 days, by moving another to its place; nothing need be restarted.
Browsers reach the proxy at console_proxy.public_url; while that is not set, the API offers no consoles.`
}

func (consoleProxyCommand) Run(r *run) error {
	cfg, pool, err := r.database(otherConnections)
	if err != nil {
		return err
	}
	defer pool.Close()
	consoles := newConsoleDatabase(pool, cfg.ConsoleProxy.Identity, r.log)
	if _, err := consoles.identity(r); err != nil {
		return err
	}
	listener, err := listen("console-proxy", cfg.ConsoleProxy.Listen)
	if err != nil {
		return err
	}
	if cfg.ConsoleProxy.Certificate != "" {
		shown, err := tls.LoadX509KeyPair(cfg.ConsoleProxy.Certificate, cfg.ConsoleProxy.Key)
		if err != nil {
			return fmt.Errorf("console_proxy.certificate, console_proxy.key: %w", err)
		}
		listener = tls.NewListener(listener, &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{shown}, NextProtos: []string{"http/1.1"}})
	}
	var host string
	if public, err := url.Parse(cfg.ConsoleProxy.PublicURL); err == nil {
		host = public.Host
	}
	handler := console.New(console.Config{
		Use: consoles.use, Open: consoles.open, Host: host, Origins: cfg.ConsoleProxy.AllowedOrigins,
		XTerm: cfg.ConsoleProxy.XTerm, NoVNC: cfg.ConsoleProxy.NoVNC, Logger: r.log,
	})
	return serveOn(r, "console-proxy", listener, handler, quiet, func(s *http.Server) {
		s.BaseContext = func(net.Listener) context.Context { return r }
		s.IdleTimeout = consoleIdle
	})
}

const (
	// consoleIdle is how long a connection without a token is kept for another request: a page asks for all that it is made of at once.
	consoleIdle = 10 * time.Second
	// lookTime is how long a token waits until it is looked at.
	lookTime = 5 * time.Second
	// lastPart of the time for which its certificate is good the proxy's log says that it ends: a sixth, a fortnight of 90 days.
	lastPart = 6
)

// consoleDatabase knows what tokens open.
type consoleDatabase struct {
	pool *pgxpool.Pool
	file string // with the proxy's certificate
	log  *slog.Logger
	// looks bounds how many tokens are looked at at once: half of the connections stay for sessions that are open, however many
	// requests come with tokens that are none.
	looks chan struct{}
}

func newConsoleDatabase(pool *pgxpool.Pool, file string, log *slog.Logger) consoleDatabase {
	return consoleDatabase{pool: pool, file: file, log: log, looks: make(chan struct{}, max(1, pool.Config().MaxConns/2))}
}

// identity reads the proxy's certificate, which may have been replaced.
func (d consoleDatabase) identity(ctx context.Context) (*pki.Identity, error) {
	own, err := pki.ReadIdentity(d.file, pki.ConsoleProxy)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("console_proxy.identity: there is none in %s: strongroom authority issue console-proxy, where the authority is, prints one", d.file)
	}
	if err != nil {
		return nil, fmt.Errorf("console_proxy.identity: %w", err)
	}
	if from, ends := own.Cert().NotBefore, own.Cert().NotAfter; time.Until(ends) < ends.Sub(from)/lastPart {
		d.log.WarnContext(ctx, "the console proxy's certificate ends soon: strongroom authority issue console-proxy prints another", "file", d.file, "ends", ends)
	}
	return own, nil
}

func (d consoleDatabase) use(ctx context.Context, token string) (console.Console, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	select {
	case d.looks <- struct{}{}:
		defer func() { <-d.looks }()
	case <-ctx.Done():
		return console.Console{}, compute.Errorf(compute.Unavailable, "too many tokens are looked at")
	}
	used, err := schema.New(d.pool).UseConsoleToken(ctx, compute.ConsoleTokenHash(token))
	switch {
	case errors.Is(err, pgx.ErrNoRows), err == nil && !used.Good:
		return console.Console{}, compute.Errorf(compute.NotFound, "the token opens no console")
	case err != nil:
		return console.Console{}, compute.Errorf(compute.Unavailable, "the database: %w", err)
	}
	return console.Console{
		Server: used.ServerID, Type: compute.ConsoleType(used.Type), Host: compute.Agent{Host: used.HostID, Name: used.HostName, URL: used.AgentURL},
	}, nil
}

// open connects to a console. While it is open it is asked now and then whether the server is on the host still, and whether the
// host's certificate is good: who got hold of one that was revoked is told no keystroke.
func (d consoleDatabase) open(ctx context.Context, of console.Console) (net.Conn, error) {
	own, err := d.identity(ctx)
	if err != nil {
		return nil, compute.Errorf(compute.Unavailable, "%w", err)
	}
	return agent.Client{Identity: own}.OpenConsole(ctx, of.Host, of.Server, of.Type, func(ctx context.Context, shown *x509.Certificate) error {
		holds, err := schema.New(d.pool).ConsoleHolds(ctx, schema.ConsoleHoldsParams{
			ServerID: of.Server, HostID: of.Host.Host.UUID, Serial: shown.SerialNumber.Text(16),
		})
		if err != nil {
			return compute.Errorf(compute.Unavailable, "the database: %w", err)
		}
		if !holds {
			return compute.Errorf(compute.Forbidden, "server %s is not there any more, or the host's certificate was revoked", of.Server)
		}
		return nil
	})
}
