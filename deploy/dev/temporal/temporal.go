// Package temporal runs the Temporal dev server: one process with its web UI and
// everything in one database file. It listens on the loopback interface only.
package temporal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"strongroom/deploy/dev/port"
	"strongroom/deploy/dev/process"
)

const loopback = "127.0.0.1"

// Config says which server to run.
type Config struct {
	Binary string // the Temporal CLI; "": Find
	Dir    string // holds temporal.db and the log
	Port   int    // of the frontend; 0: a free one
	UIPort int    // of the web UI; 0: a free one
	// Headless leaves the web UI out.
	Headless  bool
	Namespace string // default "default"
	// SearchAttributes are those of the namespace: name to type (Keyword, Int, …).
	SearchAttributes map[string]string
	// Dynamic are values of the server's dynamic configuration, as JSON, beside those
	// that strongroom's operations need.
	Dynamic map[string]string
	// PIDFile and LogFile are Dir/temporal.pid and Dir/temporal.log by default.
	PIDFile, LogFile string
	Logger           *slog.Logger
}

// Server is a running dev server.
type Server struct {
	*process.Process
	cfg Config
}

// Start runs the server on the folder's database file and returns once its
// namespace answers. One that a process which was killed left running is stopped
// first.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	if err := cfg.complete(ctx); err != nil {
		return nil, fmt.Errorf("temporal: %w", err)
	}
	begin := time.Now()
	s := &Server{cfg: cfg}
	var err error
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

// Find gives the Temporal CLI: beside this program, in the .bin folder of the
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
		if path, err := exec.LookPath(filepath.Join(place, "temporal")); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath("temporal")
	if err != nil {
		return "", errors.New("the Temporal CLI is not built: ./task tools")
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

func (c *Config) command() []string {
	args := []string{
		c.Binary, "server", "start-dev", "--ip", loopback, "--port", strconv.Itoa(c.Port), "--db-filename", c.database(),
		"--namespace", c.Namespace, "--log-level", "warn", "--log-format", "json",
	}
	if c.Headless {
		args = append(args, "--headless")
	} else {
		args = append(args, "--ui-ip", loopback, "--ui-port", strconv.Itoa(c.UIPort))
	}
	for _, name := range slices.Sorted(maps.Keys(c.SearchAttributes)) {
		args = append(args, "--search-attribute", name+"="+c.SearchAttributes[name])
	}
	dynamic := map[string]string{"matching.enableFairness": "true"} // between projects
	maps.Copy(dynamic, c.Dynamic)
	for _, name := range slices.Sorted(maps.Keys(dynamic)) {
		args = append(args, "--dynamic-config-value", name+"="+dynamic[name])
	}
	return args
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

// environment keeps the CLI from the settings of whoever runs it.
func environment(dir string) []string {
	return []string{"HOME=" + dir, "PATH=/usr/bin:/bin"}
}

// ping asks for the namespace: the frontend answers before that is there.
func (s *Server) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	c, err := client.DialContext(ctx, client.Options{
		HostPort: s.Address(), Namespace: s.cfg.Namespace, Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler)),
	})
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: s.cfg.Namespace})
	return err
}

func address(p int) string { return fmt.Sprintf("%s:%d", loopback, p) }
