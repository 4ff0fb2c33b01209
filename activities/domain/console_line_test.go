package domain_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/activities/domain"
	"strongroom/compute"
)

// A machine that runs has a serial line, and a screen where machines have one, until it stops.
func TestConsoles(t *testing.T) {
	t.Parallel()
	h := setup(t, tiny)
	s := h.server(t, false, nil)
	h.disksOf(t, s)
	open := func(of compute.ConsoleType) net.Conn {
		t.Helper()
		line, err := h.OpenConsole(t.Context(), s.ID, of)
		require.NoError(t, err)
		t.Cleanup(func() { _ = line.Close() })
		require.NoError(t, line.SetDeadline(time.Now().Add(4*time.Minute)))
		return line
	}
	none := func(of ...compute.ConsoleType) {
		t.Helper()
		for _, of := range of {
			_, err := h.OpenConsole(t.Context(), s.ID, of)
			require.Equal(t, compute.NotFound, compute.KindOf(err), "%v", err)
		}
	}
	has := func(want ...compute.ConsoleType) {
		t.Helper()
		got, err := h.Consoles(t.Context(), s.ID)
		if len(want) == 0 {
			require.Equal(t, compute.NotFound, compute.KindOf(err), "%v", err)
			return
		}
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	has()
	none(compute.ConsoleSerial, compute.ConsoleNoVNC)

	_, err := h.Start(t.Context(), domain.StartInput{Server: s})
	require.NoError(t, err)
	has(compute.ConsoleSerial)
	none(compute.ConsoleNoVNC, "spice-html5")
	_, err = h.Stop(t.Context(), domain.StopInput{Server: s.ID})
	require.NoError(t, err)
	has()

	h.VNC = true
	_, err = h.Start(t.Context(), domain.StartInput{Server: s})
	require.NoError(t, err)
	has(compute.ConsoleSerial, compute.ConsoleNoVNC)
	folder := filepath.Join(h.RunDir, s.ID.String()+".vnc")
	info, err := os.Stat(folder)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm(), "nobody else gets to the socket, which asks for no password")
	h.hear(t, s, "TG ready", 0) // the first machine did not come so far
	line, screen := open(compute.ConsoleSerial), open(compute.ConsoleNoVNC)
	greeting := make([]byte, 12)
	_, err = io.ReadFull(screen, greeting)
	require.NoError(t, err)
	require.Equal(t, "RFB 003.008\n", string(greeting))
	_, err = fmt.Fprintln(line, "ping hello")
	require.NoError(t, err)
	said := bufio.NewReader(line)
	for text := ""; !strings.Contains(text, "TG pong hello"); {
		text, err = said.ReadString('\n')
		require.NoError(t, err)
	}
	go func() { _, _ = io.Copy(io.Discard, said) }()

	_, err = h.Stop(t.Context(), domain.StopInput{Server: s.ID})
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, screen)
	require.NoError(t, err, "QEMU ends it")
	has()
	none(compute.ConsoleSerial, compute.ConsoleNoVNC)
	require.NoError(t, h.Remove(t.Context(), ofDomain(s.ID)))
	require.NoDirExists(t, folder)
}
