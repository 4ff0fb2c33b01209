// Package rabbitmqtest runs a RabbitMQ for tests.
package rabbitmqtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"strongroom/deploy/dev/port"
)

// The program, and how long it may take to answer.
const (
	program  = "/usr/lib/rabbitmq/bin/rabbitmq-server"
	patience = 90 * time.Second
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
	started  []*exec.Cmd
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
	s.run(t, "epmd", "-port", fmt.Sprint(s.names), "-address", "127.0.0.1")
	s.run(t, program)
	require.Eventually(t, func() bool {
		c, err := s.Dial()
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	}, patience, 200*time.Millisecond, "RabbitMQ answers")
}

func (s *Server) run(t testing.TB, name string, args ...string) {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(s.dir, "log", filepath.Base(name)+".out"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	defer log.Close()
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Env = append(os.Environ(),
		"HOME="+filepath.Join(s.dir, "home"), fmt.Sprintf("ERL_EPMD_PORT=%d", s.names), fmt.Sprintf("RABBITMQ_DIST_PORT=%d", s.nodes),
		"RABBITMQ_NODENAME=strongroom@localhost", "RABBITMQ_CONFIG_FILE="+filepath.Join(s.dir, "rabbitmq.conf"),
		"RABBITMQ_MNESIA_BASE="+filepath.Join(s.dir, "data"), "RABBITMQ_LOG_BASE="+filepath.Join(s.dir, "log"),
		"RABBITMQ_ENABLED_PLUGINS_FILE="+filepath.Join(s.dir, "plugins"), "RABBITMQ_PID_FILE="+filepath.Join(s.dir, "pid"),
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=+S 1:1 +sbwt none -kernel inet_dist_use_interface {127,0,0,1}",
	)
	require.NoError(t, cmd.Start())
	s.started = append(s.started, cmd)
}

// Stop kills it, as a crash of its machine does.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	for _, cmd := range s.started {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
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
