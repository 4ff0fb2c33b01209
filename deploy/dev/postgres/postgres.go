// Package postgres runs a PostgreSQL cluster of its own in one folder. It can be
// reached through a unix socket only, by root and by the user it runs as, without
// a password: there is none to leak and no port to collide.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"strongroom/deploy/dev/process"
)

// Role is the cluster's superuser and the name of its first database.
const Role = "strongroom"

// Config says which cluster to run.
type Config struct {
	// Dir holds the cluster in data/, the socket in run/ and the log. Its path
	// must be short (at most 80 bytes), and the user postgres must be able to
	// pass through the folders above it.
	Dir string
	// Volatile trades safety against power loss for speed: for tests.
	Volatile       bool
	MaxConnections int // default 200
	// PIDFile and LogFile are Dir/postgres.pid and Dir/postgres.log by default.
	PIDFile, LogFile string
	Logger           *slog.Logger
}

// Server is a running cluster.
type Server struct {
	*process.Process
	cfg Config
}

// Start runs the folder's cluster, which is made if there is none, and returns
// once it answers. A cluster that a process which was killed left running is
// stopped first. Root drops to the user postgres.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.MaxConnections == 0 {
		cfg.MaxConnections = 200
	}
	if cfg.PIDFile == "" {
		cfg.PIDFile = filepath.Join(cfg.Dir, "postgres.pid")
	}
	if cfg.LogFile == "" {
		cfg.LogFile = filepath.Join(cfg.Dir, "postgres.log")
	}
	begin := time.Now()
	c, err := prepare(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	s := &Server{cfg: cfg}
	for tries := 1; ; tries++ {
		if s.Process, err = process.Start(ctx, process.Config{
			Name: "postgres", Command: c.command(), Env: []string{"LC_ALL=C.UTF-8"}, Dir: c.data(),
			LogFile: cfg.LogFile, PIDFile: cfg.PIDFile, Credential: c.user.credential,
			StopSignal:   syscall.SIGINT, // rolls back what runs and ends; SIGTERM would wait for every client to leave
			OrphanSignal: syscall.SIGINT,
		}); err != nil {
			return nil, err
		}
		if err = s.Until(ctx, s.ping); err == nil {
			break
		}
		err = errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
		// The children of a server that was killed end a moment after it.
		if tries == 20 || ctx.Err() != nil || !strings.Contains(err.Error(), "pre-existing shared memory block") {
			return nil, err
		}
		time.Sleep(250 * time.Millisecond)
	}
	if err := s.Database(ctx, Role); err != nil {
		return nil, errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
	}
	cfg.Logger.Info("postgres is up", "socket", c.run(), "pid", s.PID(), "after", time.Since(begin).Round(time.Millisecond))
	return s, nil
}

// URL is the connection string of the first database.
func (s *Server) URL() string { return s.DatabaseURL(Role) }

// DatabaseURL is the connection string of a database.
func (s *Server) DatabaseURL(name string) string {
	return (&url.URL{
		Scheme: "postgres", User: url.User(Role), Path: "/" + name,
		RawQuery: url.Values{"host": {filepath.Join(s.cfg.Dir, "run")}}.Encode(),
	}).String()
}

// Database ensures that there is a database of the name.
func (s *Server) Database(ctx context.Context, name string) error {
	conn, err := pgx.Connect(ctx, s.DatabaseURL("postgres"))
	if err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	defer conn.Close(ctx)
	var there bool
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name).Scan(&there); err != nil || there {
		return err
	}
	_, err = conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize())
	return err
}

func (s *Server) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.DatabaseURL("postgres"))
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}
