package integration_test

import (
	"bufio"
	"context"
	"errors"
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

	"strongroom/deploy/await"
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

// serial is a guest's serial line, to read and to type.
type serial struct {
	t     *testing.T
	conn  net.Conn
	out   *os.File // what the guest said: a pipe
	in    *bufio.Reader
	half  string // of a line that the guest has not ended yet
	guest []await.Witness
}

func (c *testCloud) serial(t *testing.T, server string) *serial {
	t.Helper()
	h := c.hostOf(t, server)
	var conn net.Conn
	await.For(t, "a serial line of server "+server, func() (ok bool) {
		var err error
		conn, err = net.Dial("unix", h.ConsoleSocket(server))
		return err == nil
	}, c.progress(server), c.guestProgress(server))
	t.Cleanup(func() { _ = conn.Close() })
	out, in, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { _ = out.Close() })
	go func() { // what nobody reads stops the guest: the socket holds less than 300 of QEMU's writes of a byte
		// Not by splice, to which io.Copy comes by itself: each byte takes one of the pipe's 16 places then.
		_, _ = io.Copy(struct{ io.Writer }{in}, conn)
		_ = in.Close()
	}()
	return &serial{t: t, conn: conn, out: out, in: bufio.NewReader(out), guest: []await.Witness{c.guestProgress(server)}}
}

// expect reads lines until one holds the text, and gives what follows it there.
func (s *serial) expect(text string) (after string) {
	s.t.Helper()
	var read []string
	said := await.Witness{Name: "its line", Look: func() string {
		all := ticking.ReplaceAll([]byte(strings.Join(read, "")), nil)
		return fmt.Sprintf("%d bytes, the last %.80q", len(all), lastLine(all))
	}}
	await.For(s.t, fmt.Sprintf("the guest says %q", text), func() (found bool) {
		for {
			line, err := s.line(5 * time.Second)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return false
			}
			if _, after, found = strings.Cut(line, text); found {
				return true
			}
			read = append(read, line)
			require.NoError(s.t, err, "the guest never said %q; it said %q", text, read)
		}
	}, append(s.guest, said)...)
	return strings.TrimSpace(after)
}

// line reads the next line. os.ErrDeadlineExceeded: the guest has not ended it within a time.
func (s *serial) line(within time.Duration) (string, error) {
	s.t.Helper()
	require.NoError(s.t, s.out.SetReadDeadline(time.Now().Add(within)))
	more, err := s.in.ReadString('\n')
	line := s.half + more
	s.half = ""
	if errors.Is(err, os.ErrDeadlineExceeded) {
		s.half = line
	}
	return line, err
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
	err := await.Until(fmt.Sprintf("the guest of server %s says %q %d times", server, text, times), func() bool {
		log, _ = os.ReadFile(path)
		return strings.Count(string(log), text) >= times
	}, c.progress(server), c.guestProgress(server))
	require.NoError(t, err, "its console log: %s", log)
	return string(log)
}
