// Package temporal runs strongroom-temporal: one process with its web UI and everything in
// one database file. It listens on the loopback interface only.
package temporal

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.yaml.in/yaml/v3"

	"strongroom/deploy/dev/port"
	"strongroom/deploy/dev/process"
	"strongroom/worker/pki"
)

const loopback = "127.0.0.1"

// Config says which server to run.
type Config struct {
	Binary string // strongroom-temporal; "": Find
	Dir    string // holds temporal.db, the configuration, the key of task tokens and the log
	// Authority is the folder of strongroom's certificate authority, by whose certificates
	// the server decides who may do what. Empty: in clear text, everybody may do everything.
	Authority string
	Gateway   string // URL of where the list of revoked certificates is; "": nowhere
	// RevokedEvery is how often the server asks for it; 0: as it does by default.
	RevokedEvery time.Duration
	Port         int // of the frontend; 0: a free one
	UIPort       int // of the web UI; 0: a free one
	// Database is the URL of a PostgreSQL database, which is brought up to date first; "": a
	// file of SQLite.
	Database string
	// Headless leaves the web UI out.
	Headless  bool
	Namespace string // default "default"
	// SearchAttributes are those of the namespace: name to type (Keyword, Int, …).
	SearchAttributes map[string]string
	// Dynamic are values of the server's dynamic configuration beside those that
	// strongroom's operations need.
	Dynamic map[string]any
	// PIDFile and LogFile are Dir/temporal.pid and Dir/temporal.log by default.
	PIDFile, LogFile string
	Logger           *slog.Logger
}

// Server is a running server.
type Server struct {
	*process.Process
	cfg Config
	tls *tls.Config
}

// Start runs the server on the folder's database file and returns once its
// namespace answers. One that a process which was killed left running is stopped
// first. Where a port that was free is taken meanwhile, others are chosen.
func Start(ctx context.Context, cfg Config) (s *Server, err error) {
	for range 3 {
		s, err = start(ctx, cfg)
		if err == nil || !strings.Contains(err.Error(), "address already in use") {
			break
		}
	}
	return s, err
}

func start(ctx context.Context, cfg Config) (*Server, error) {
	if err := cfg.complete(ctx); err != nil {
		return nil, fmt.Errorf("temporal: %w", err)
	}
	begin := time.Now()
	s := &Server{cfg: cfg}
	err := cfg.write(ctx)
	if err == nil && cfg.Authority != "" {
		s.tls, err = TLS(cfg.Authority, pki.Control)
	}
	if err != nil {
		return nil, fmt.Errorf("temporal: %w", err)
	}
	s.Process, err = process.Start(ctx, process.Config{
		Name: "temporal", Command: cfg.command(), Env: environment(cfg.Dir), Dir: cfg.Dir,
		LogFile: cfg.LogFile, PIDFile: cfg.PIDFile, OrphanSignal: syscall.SIGTERM,
		Before: cfg.portsAreFree,
	})
	if err != nil {
		return nil, err
	}
	if err := s.Until(ctx, s.ping); err != nil {
		return nil, errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
	}
	cfg.Logger.Info("temporal is up", "address", s.Address(), "ui", s.UI(), "pid", s.PID(), "after", time.Since(begin).Round(time.Millisecond))
	return s, nil
}

// Address is the frontend's host:port.
func (s *Server) Address() string { return address(s.cfg.Port) }

// UI is the web UI's address, "" without one.
func (s *Server) UI() string {
	if s.cfg.Headless {
		return ""
	}
	return "http://" + address(s.cfg.UIPort)
}

// Namespace is the namespace that the server was started with.
func (s *Server) Namespace() string { return s.cfg.Namespace }

// Database is the file that holds all histories.
func (s *Server) Database() string { return s.cfg.database() }

// LogFile is what the server printed.
func (s *Server) LogFile() string { return s.cfg.LogFile }

// TLS is with what a process of that name connects to a server that has the authority.
func TLS(authority string, as pki.Name) (*tls.Config, error) {
	a, err := pki.Open(authority)
	if err != nil {
		return nil, err
	}
	id, err := a.Process(as)
	if err != nil {
		return nil, err
	}
	return id.Temporal(), nil
}

// program is the file that Find looks for.
const program = "strongroom-temporal"

// Find gives strongroom-temporal: beside this program, in the .bin folder of the
// working folder or of one above it, or on the PATH.
func Find() (string, error) {
	var places []string
	if self, err := os.Executable(); err == nil {
		places = append(places, filepath.Dir(self))
	}
	if dir, err := os.Getwd(); err == nil {
		for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
			places = append(places, filepath.Join(dir, ".bin"))
		}
	}
	for _, place := range places {
		if path, err := exec.LookPath(filepath.Join(place, program)); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return "", errors.New(program + " is not built: ./task tools")
	}
	return path, nil
}

func (c *Config) complete(ctx context.Context) (err error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Namespace == "" {
		c.Namespace = "default"
	}
	if c.PIDFile == "" {
		c.PIDFile = filepath.Join(c.Dir, "temporal.pid")
	}
	if c.LogFile == "" {
		c.LogFile = filepath.Join(c.Dir, "temporal.log")
	}
	if c.Binary == "" {
		if c.Binary, err = Find(); err != nil {
			return err
		}
	}
	if c.Port, err = port.Or(ctx, c.Port); err != nil {
		return err
	}
	if c.UIPort, err = port.Or(ctx, c.UIPort); err != nil {
		return err
	}
	return os.MkdirAll(c.Dir, 0o700)
}

func (c *Config) database() string { return filepath.Join(c.Dir, "temporal.db") }

func (c *Config) file() string { return filepath.Join(c.Dir, "temporal.yaml") }

func (c *Config) command() []string { return []string{c.Binary, "--config", c.file(), "serve"} }

// write writes the server's configuration.
func (c *Config) write(ctx context.Context) error {
	namespace := map[string]any{"name": c.Namespace, "search_attributes": c.SearchAttributes}
	all := map[string]any{
		"listen": address(c.Port), "folder": c.Dir, "namespaces": []any{namespace}, "dynamic": c.Dynamic,
		"authority": c.Authority, "insecure": c.Authority == "",
	}
	if c.Gateway != "" {
		revocations := map[string]any{"gateway": c.Gateway}
		if c.RevokedEvery > 0 {
			revocations["every"] = c.RevokedEvery.String()
		}
		all["revocations"] = revocations
	}
	if !c.Headless {
		all["ui"] = map[string]any{"listen": address(c.UIPort)}
	}
	if c.Database != "" {
		url := filepath.Join(c.Dir, "database.url")
		if err := os.WriteFile(url, []byte(c.Database), 0o600); err != nil {
			return err
		}
		all["database"] = map[string]any{"url_file": url, "history_shards": 4}
	}
	text, err := yaml.Marshal(all)
	if err != nil {
		return err
	}
	if err := os.WriteFile(c.file(), text, 0o600); err != nil || c.Database == "" {
		return err
	}
	said, err := exec.CommandContext(ctx, c.Binary, "--config", c.file(), "migrate").CombinedOutput()
	if err != nil {
		return fmt.Errorf("migrate: %w: %s", err, said)
	}
	return nil
}

// portsAreFree keeps another process that has the port from being taken for our server.
func (c *Config) portsAreFree(ctx context.Context) error {
	ports := []int{c.Port}
	if !c.Headless {
		ports = append(ports, c.UIPort)
	}
	for _, p := range ports {
		if err := port.Check(ctx, p); err != nil {
			return fmt.Errorf("temporal: %w", err)
		}
	}
	return nil
}

// environment keeps the server from the settings of whoever runs it.
func environment(dir string) []string {
	return []string{"HOME=" + dir, "PATH=/usr/bin:/bin"}
}

// ping asks for the namespace: the frontend answers before that is there.
func (s *Server) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	c, err := client.DialContext(ctx, client.Options{
		HostPort: s.Address(), Namespace: s.cfg.Namespace, Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler)),
		ConnectionOptions: client.ConnectionOptions{TLS: s.tls},
	})
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: s.cfg.Namespace})
	return err
}

func address(p int) string { return fmt.Sprintf("%s:%d", loopback, p) }
