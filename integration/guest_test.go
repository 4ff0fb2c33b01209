package integration_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/imagedata"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/stretchr/testify/require"
)

// uploadGuests uploads the guests as public images.
func (c *testCloud) uploadGuests() error {
	admin, err := c.session("")
	if err != nil {
		return err
	}
	client, err := openstack.NewImageV2(admin.provider, admin.endpoint)
	if err != nil {
		return err
	}
	if c.image, err = uploadGuest(client, "tiny", c.guest); err != nil {
		return err
	}
	c.idler, err = uploadGuest(client, "idle", c.idle)
	return err
}

func uploadGuest(client *gophercloud.ServiceClient, name, file string) (string, error) {
	public := images.ImageVisibilityPublic
	img, err := images.Create(context.Background(), client, images.CreateOpts{
		Name: name, DiskFormat: "qcow2", ContainerFormat: "bare", Visibility: &public,
	}).Extract()
	if err != nil {
		return "", err
	}
	data, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer func() { _ = data.Close() }()
	return img.ID, imagedata.Upload(context.Background(), client, img.ID, data).ExtractErr()
}

// bootTimeout is long: many guests share two CPUs that are emulated.
const bootTimeout = 5 * time.Minute

// serial is a guest's serial line, to read and to type.
type serial struct {
	t    *testing.T
	conn net.Conn
	out  *os.File // what the guest said: a pipe
	in   *bufio.Reader
}

func (c *testCloud) serial(t *testing.T, server string) *serial {
	t.Helper()
	h := c.hostOf(t, server)
	var conn net.Conn
	require.Eventually(t, func() (ok bool) {
		var err error
		conn, err = net.Dial("unix", h.ConsoleSocket(server))
		return err == nil
	}, time.Minute, 50*time.Millisecond)
	t.Cleanup(func() { _ = conn.Close() })
	out, in, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { _ = out.Close() })
	go func() { // what nobody reads stops the guest: the socket holds less than 300 of QEMU's writes of a byte
		// Not by splice, to which io.Copy comes by itself: each byte takes one of the pipe's 16 places then.
		_, _ = io.Copy(struct{ io.Writer }{in}, conn)
		_ = in.Close()
	}()
	return &serial{t: t, conn: conn, out: out, in: bufio.NewReader(out)}
}

// expect reads lines until one holds the text, and gives what follows it there.
func (s *serial) expect(text string) string {
	s.t.Helper()
	require.NoError(s.t, s.out.SetReadDeadline(time.Now().Add(bootTimeout)))
	var read []string
	for {
		line, err := s.in.ReadString('\n')
		if _, after, ok := strings.Cut(line, text); ok {
			return strings.TrimSpace(after)
		}
		read = append(read, line)
		require.NoError(s.t, err, "the guest never said %q; it said %q", text, read)
	}
}

// ask types a command and reads until its answer.
func (s *serial) ask(command, answer string) string {
	s.t.Helper()
	_, err := fmt.Fprintln(s.conn, command)
	require.NoError(s.t, err)
	return s.expect(answer)
}

// console waits until the console log of a server holds a text. Unlike the
// serial line it also has what was said before anybody listened.
func (c *testCloud) console(t *testing.T, server, text string, times int) string {
	t.Helper()
	path := filepath.Join(c.hostOf(t, server).Instances(), server, "console.log")
	var log []byte
	for deadline := time.Now().Add(bootTimeout); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if log, _ = os.ReadFile(path); strings.Count(string(log), text) >= times {
			return string(log)
		}
	}
	require.Fail(t, "the guest did not say it", "%q %d times; the console log: %s", text, times, log)
	return ""
}
