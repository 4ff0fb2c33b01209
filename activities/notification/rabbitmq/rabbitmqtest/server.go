// Package rabbitmqtest runs a RabbitMQ for tests.
package rabbitmqtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"strongroom/deploy/dev/port"
	"strongroom/deploy/dev/process"
)

// The program, and how long it may take to answer.
const (
	program  = "/usr/lib/rabbitmq/bin/rabbitmq-server"
	patience = 5 * time.Minute // after a crash it has its tables to recover, on a machine that may be busy
)

// Server is a RabbitMQ on 127.0.0.1, with a user and a virtual host.
type Server struct {
	URL          string // without the password
	PasswordFile string

	dir      string
	port     int
	names    int // port of its name server, epmd
	nodes    int // port for other nodes
	password string
	started  []*process.Process
}

// New prepares a server with further settings, lines of rabbitmq.conf, without starting it: its data is kept from one Start to the next.
func New(t testing.TB, settings ...string) *Server {
	t.Helper()
	dir, err := os.MkdirTemp("", "rabbitmq") // t.TempDir's name may be too long for a node's socket
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &Server{dir: dir, PasswordFile: filepath.Join(dir, "password"), password: "pass-" + filepath.Base(dir)}
	ports, err := port.Free(t.Context(), 3)
	require.NoError(t, err)
	s.port, s.names, s.nodes = ports[0], ports[1], ports[2]
	s.URL = fmt.Sprintf("amqp://strongroom@127.0.0.1:%d/", s.port)
	require.NoError(t, os.WriteFile(s.PasswordFile, []byte(s.password+"\n"), 0o600))
	for _, name := range []string{"home", "log", "data"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "plugins"), []byte("[].\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "rabbitmq.conf"), fmt.Appendf(nil,
		"listeners.tcp.1 = 127.0.0.1:%d\ndefault_user = strongroom\ndefault_pass = %s\n%s\n", s.port, s.password, strings.Join(settings, "\n")), 0o600))
	return s
}

// Start starts it and waits until it answers. It ends with the test, or by Stop.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	t.Cleanup(func() { s.Stop(t) })
	// RabbitMQ would start a name server that it cannot reach yet itself, as a daemon.
	s.run(t, func(ctx context.Context) error { return port.Answers(ctx, fmt.Sprintf("127.0.0.1:%d", s.names)) },
		"epmd", "-port", fmt.Sprint(s.names), "-address", "127.0.0.1")
	s.run(t, func(context.Context) error {
		c, err := s.Dial()
		if err == nil {
			_ = c.Close()
		}
		return err
	}, program)
}

// run starts a program and waits until it is ready. One that ends, or takes too long, fails the test with what it printed last.
func (s *Server) run(t testing.TB, ready func(context.Context) error, command ...string) {
	t.Helper()
	file := filepath.Join(s.dir, "log", filepath.Base(command[0]))
	p, err := process.Start(t.Context(), process.Config{
		Name: command[0], Command: command, LogFile: file + ".out", PIDFile: file + ".pid", OrphanSignal: syscall.SIGKILL,
		Env: append(os.Environ(),
			"HOME="+filepath.Join(s.dir, "home"), fmt.Sprintf("ERL_EPMD_PORT=%d", s.names), fmt.Sprintf("RABBITMQ_DIST_PORT=%d", s.nodes),
			"RABBITMQ_NODENAME=strongroom@localhost", "RABBITMQ_CONFIG_FILE="+filepath.Join(s.dir, "rabbitmq.conf"),
			"RABBITMQ_MNESIA_BASE="+filepath.Join(s.dir, "data"), "RABBITMQ_LOG_BASE="+filepath.Join(s.dir, "log"),
			"RABBITMQ_ENABLED_PLUGINS_FILE="+filepath.Join(s.dir, "plugins"), "RABBITMQ_PID_FILE="+filepath.Join(s.dir, "pid"),
			"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=+S 1:1 +sbwt none -kernel inet_dist_use_interface {127,0,0,1}",
		),
	})
	require.NoError(t, err)
	s.started = append(s.started, p)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, p.Until(ctx, ready))
}

// Stop kills it, as a crash of its machine does.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	for _, p := range s.started {
		require.NoError(t, p.Kill(context.WithoutCancel(t.Context())))
	}
	s.started = nil
}

// Dial connects to it.
func (s *Server) Dial() (*amqp.Connection, error) {
	return amqp.Dial(strings.Replace(s.URL, "strongroom@", "strongroom:"+s.password+"@", 1))
}

// Password is its user's.
func (s *Server) Password() string { return s.password }

// Take takes all messages that wait in a queue; none where there is no such queue.
func (s *Server) Take(t testing.TB, queue string) (taken []amqp.Delivery) {
	t.Helper()
	c, err := s.Dial()
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	ch, err := c.Channel()
	require.NoError(t, err)
	for {
		m, ok, err := ch.Get(queue, true)
		if err != nil || !ok {
			return taken
		}
		taken = append(taken, m)
	}
}
