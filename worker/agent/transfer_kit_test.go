package agent_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/disk"
	"strongroom/activities/secret"
	"strongroom/activities/tpm"
	"strongroom/compute"
	"strongroom/worker/agent"
	"strongroom/worker/pki"
)

const mib = 1 << 20

// node is a host with its disks, TPM states and agent.
type node struct {
	compute.Agent
	t        testing.TB
	identity *pki.Identity
	disks    *disk.Activities
	tpms     *tpm.Activities

	granted func(compute.Transfer, *x509.Certificate) error // nil: everything
	isOff   func() error                                    // nil: always
	wire    *wire
	log     logged
}

// logged is what was logged.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// take gives the lines with a text that were logged since the last call.
func (l *logged) take(text string) (lines []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, text) {
			lines = append(lines, line)
		}
	}
	l.text.Reset()
	return lines
}

func authority(t testing.TB) *pki.Authority {
	t.Helper()
	a, err := pki.Ensure(filepath.Join(t.TempDir(), "ca"))
	require.NoError(t, err)
	return a
}

func needsQEMU(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("qemu-img"); err != nil && os.Getenv("CI") == "" {
		t.Skip("needs qemu-img")
	}
}

// newNode is a host whose agent answers.
func newNode(t testing.TB, a *pki.Authority, name string) *node {
	t.Helper()
	needsQEMU(t)
	n := openNode(t, a, name, t.TempDir())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	n.serve(&wire{Listener: listener})
	return n
}

// serve has the host's agent answer.
func (n *node) serve(w *wire) {
	n.wire, n.URL = w, "https://"+w.Listener.Addr().String()
	server := &http.Server{
		Handler: agent.Server{Logger: slog.New(slog.NewTextHandler(io.MultiWriter(n.t.Output(), &n.log), nil)), Transfers: &agent.Transfers{
			Grants: func(_ context.Context, t compute.Transfer, to *x509.Certificate) error {
				if n.granted == nil {
					return nil
				}
				return n.granted(t, to)
			},
			IsOff: func(context.Context, compute.ServerID) error {
				if n.isOff == nil {
					return nil
				}
				return n.isOff()
			},
			Disk: n.disks.OpenToSend, Image: n.disks.OpenImageToSend, TPM: n.tpms.Send,
		}}.Handler(),
		ReadHeaderTimeout: time.Minute, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0),
	}
	go func() { _ = server.Serve(tls.NewListener(n.wire, n.identity.Server())) }()
	n.t.Cleanup(func() { require.NoError(n.t, server.Close()) })
}

// everybody accepts every host.
func everybody(context.Context, compute.Arrival, *x509.Certificate) error { return nil }

// openNode is a host that others do not reach, with its data in a folder.
func openNode(t testing.TB, a *pki.Authority, name, dir string) *node {
	t.Helper()
	n := &node{t: t, Agent: compute.Agent{Host: compute.HostID{UUID: uuid.New()}, Name: name}}
	var err error
	n.identity, err = a.Process(pki.HostName(n.Host))
	require.NoError(t, err)
	to := agent.Client{Identity: n.identity, Accepts: everybody}
	n.disks, err = disk.New(disk.Config{
		InstancesDir: filepath.Join(dir, "instances"), CacheDir: filepath.Join(dir, name+"-cache"), Hosts: to, Images: images{}, Keys: keys{},
		Owner: &disk.Owner{UID: os.Getuid(), GID: os.Getgid()}, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	require.NoError(t, err)
	n.tpms, err = tpm.New(tpm.Config{SwtpmDir: filepath.Join(dir, "swtpm"), User: "nobody", Group: "nogroup", Hosts: to})
	require.NoError(t, err)
	return n
}

// path is that of a server's disk.
func (n *node) path(server compute.ServerID, d compute.Disk) string {
	return filepath.Join(n.disks.InstancesDir, server.String(), d.Name())
}

// left are the files of a server, hidden ones too.
func (n *node) left(server compute.ServerID) (names []string) {
	entries, _ := os.ReadDir(filepath.Join(n.disks.InstancesDir, server.String()))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// has lays down an ephemeral disk with so much data in it.
func (n *node) has(sizeMB, dataMB int64) (compute.ServerID, compute.Disk) {
	n.t.Helper()
	server := compute.ServerID{UUID: uuid.New()}
	d := compute.Disk{ID: compute.DiskID{UUID: uuid.New()}, Role: compute.EphemeralDisk, SizeMB: sizeMB}
	_, err := n.disks.Create(n.t.Context(), disk.CreateInput{Server: server, Disk: d})
	require.NoError(n.t, err)
	n.fill(n.path(server, d), dataMB)
	return server, d
}

// fill adds random data to a file, with holes before and behind.
func (n *node) fill(path string, dataMB int64) {
	n.t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(n.t, err)
	noise := rand.NewChaCha8([32]byte{byte(dataMB)})
	block := make([]byte, mib)
	for i := range dataMB {
		_, _ = noise.Read(block)
		_, err = f.WriteAt(block, (hole+i)*mib)
		require.NoError(n.t, err)
	}
	require.NoError(n.t, f.Truncate((hole+dataMB+hole)*mib))
	require.NoError(n.t, f.Close())
}

// hole is how many MiB are a hole before the data and behind them.
const hole = 9

// images is an image store with images of 1 MiB that begin with their id.
type images struct{}

func imageData(id compute.ImageID) []byte { return append(id.UUID[:], make([]byte, mib-16)...) }

func (images) Open(_ context.Context, _ compute.Credential, id compute.ImageID) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(imageData(id))), nil
}

// keys is a key manager with one passphrase.
type keys struct{}

func (keys) Passphrase(context.Context, compute.Credential, compute.SecretID) (*secret.Passphrase, error) {
	return secret.New([]byte("the passphrase of all disks")), nil
}

// receive has the host receive a disk of another one.
func (n *node) receive(ctx context.Context, from *node, server compute.ServerID, d compute.Disk) error {
	return n.disks.Receive(ctx, disk.ReceiveInput{Server: server, Operation: "req-1", Disk: d, From: from.Agent})
}

// wire counts what is sent and cuts connections when it is told to.
type wire struct {
	net.Listener
	sent  atomic.Int64
	cutAt atomic.Int64 // 0: never
	tell  func(sent int64)
}

func (w *wire) Accept() (net.Conn, error) {
	c, err := w.Listener.Accept()
	return &counted{c, w}, err
}

type counted struct {
	net.Conn
	*wire
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	sent := c.sent.Add(int64(n))
	if c.tell != nil {
		c.tell(sent)
	}
	if at := c.cutAt.Load(); at > 0 && sent >= at {
		c.cutAt.Store(0)
		_ = c.Conn.Close()
	}
	return n, err
}

func (c *counted) Close() error   { return c.Conn.Close() }
func (c *counted) Addr() net.Addr { return c.LocalAddr() }
