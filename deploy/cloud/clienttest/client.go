// Package clienttest runs Debian's OpenStack clients for tests: openstack, and cinder.
package clienttest

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Client is the client as one user runs it.
type Client struct {
	program     string
	socket      string
	environment map[string]string
}

// Open gives the client with an environment of its own, in which nothing else is, or
// skips the test where it is not installed; in CI that is a failure. All clients of a
// test binary share the process that has loaded it.
func Open(t testing.TB, environment ...string) Client {
	t.Helper()
	server, err := loaded()
	if errors.Is(err, exec.ErrNotFound) && os.Getenv("CI") == "" {
		t.Skip("python3-openstackclient is not installed")
	}
	require.NoError(t, err)
	c := Client{program: "openstack", socket: server.socket, environment: map[string]string{"PATH": os.Getenv("PATH"), "HOME": t.TempDir(), "LC_ALL": "C.UTF-8"}}
	for _, setting := range environment {
		name, value, found := strings.Cut(setting, "=")
		require.True(t, found, setting)
		c.environment[name] = value
	}
	return c
}

// Cinder is the block storage service's own client, as the same user runs it.
func (c Client) Cinder() Client {
	c.program = "cinder"
	return c
}

// Run runs one command and gives what it printed, and its complaint. A command that
// fails is an error.
func (c Client) Run(t testing.TB, arguments ...string) (out, complaint string, err error) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "unix", c.socket)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, json.NewEncoder(conn).Encode(map[string]any{"program": c.program, "arguments": arguments, "environment": c.environment}))
	var said struct {
		Code     int
		Out, Err string
	}
	require.NoError(t, json.NewDecoder(conn).Decode(&said), "%s %v", c.program, arguments)
	if said.Code != 0 {
		err = fmt.Errorf("%s %v: exit code %d", c.program, arguments, said.Code)
	}
	return said.Out, said.Err, err
}

// Decode runs one command with -f json and decodes what it printed. A command with --wait may print its progress before.
func (c Client) Decode(t testing.TB, into any, arguments ...string) {
	t.Helper()
	out, complaint, err := c.Run(t, append(arguments, "-f", "json")...)
	require.NoError(t, err, "%s%s", out, complaint)
	require.NoError(t, json.Unmarshal([]byte(out[max(0, strings.IndexAny(out, "{[")):]), into), out)
}

//go:embed serve.py
var serve string

// server is the process that has loaded the client's program.
type server struct {
	socket string
	alive  io.Closer // its standard input, open for as long as this process lives
}

// loaded starts it, once. It ends when its standard input is closed, by the end of this
// process, and removes the socket.
var loaded = sync.OnceValues(func() (s server, err error) {
	program, err := exec.LookPath("openstack")
	if err != nil {
		return s, err
	}
	text, err := os.ReadFile(program)
	if err != nil {
		return s, err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	interpreter, isScript := strings.CutPrefix(first, "#!")
	if !isScript {
		return s, fmt.Errorf("%s is no script", program)
	}
	dir, err := os.MkdirTemp("", "sr-osc-")
	if err != nil {
		return s, err
	}
	s.socket = filepath.Join(dir, "s")
	process := exec.Command(strings.TrimSpace(interpreter), "-c", serve, s.socket)
	process.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "LC_ALL=C.UTF-8"}
	process.Stderr = os.Stderr
	process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is the tests' to handle
	out, err := process.StdoutPipe()
	if err != nil {
		return s, err
	}
	if s.alive, err = process.StdinPipe(); err != nil {
		return s, err
	}
	if err := process.Start(); err != nil {
		return s, err
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return s, fmt.Errorf("%s did not load: %w", program, errors.Join(err, process.Wait()))
	}
	return s, nil
})
