package domain_test

import (
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"strongroom/activities/domain"
	"strongroom/compute"
)

// asQEMU is a command of the user as whom guests run: what one of them can do that has broken out.
func asQEMU(t *testing.T, name string, args ...string) *exec.Cmd {
	uid, gid := qemuUser(t)
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: gid}}
	return cmd
}

func qemuUser(t *testing.T) (uid, gid uint32) {
	t.Helper()
	is, err := os.Stat("/var/lib/libvirt/qemu")
	require.NoError(t, err)
	stat := is.Sys().(*syscall.Stat_t)
	return stat.Uid, stat.Gid
}

// S2: whatever QEMU's user puts in the place of its screen, root connects to nothing but a QEMU.
func TestS2WhatIsInThePlaceOfAScreenIsNotSpokenTo(t *testing.T) {
	t.Parallel()
	h := setup(t, idle)
	h.VNC = true
	s := h.server(t, false, nil)
	h.disksOf(t, s)
	_, err := h.Start(t.Context(), domain.StartInput{Server: s})
	require.NoError(t, err)
	dir := filepath.Join(h.RunDir, s.ID.String()+".vnc")
	socket, aside := filepath.Join(dir, "v"), filepath.Join(dir, "w")
	out, err := asQEMU(t, "mv", socket, aside).CombinedOutput()
	require.NoError(t, err, "%s", out)

	refused := func(why string) {
		t.Helper()
		conn, err := h.OpenConsole(t.Context(), s.ID, compute.ConsoleNoVNC)
		require.Nil(t, conn)
		require.ErrorContains(t, err, why)
		require.NoError(t, os.RemoveAll(socket))
	}
	for _, command := range [][]string{
		{"ln", "-s", h.daemon.Socket(), socket}, // lets root in without a question
		{"ln", "-s", aside, socket},
		{"mkfifo", socket}, // who opens it waits
		{"mkdir", socket},
	} {
		out, err := asQEMU(t, command[0], command[1:]...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		refused("is no socket")
	}
	require.NoError(t, os.Link(h.daemon.Socket(), socket)) // as its user can where fs.protected_hardlinks is 0
	refused("is served by process")
	stranger, err := net.Listen("unix", socket)
	require.NoError(t, err)
	uid, gid := qemuUser(t)
	require.NoError(t, os.Chown(socket, int(uid), int(gid)))
	refused("of user 0")
	require.NoError(t, stranger.Close())

	out, err = asQEMU(t, "mv", aside, socket).CombinedOutput()
	require.NoError(t, err, "%s", out)
	screen, err := h.OpenConsole(t.Context(), s.ID, compute.ConsoleNoVNC)
	require.NoError(t, err)
	defer screen.Close()
	greeting := make([]byte, 12)
	_, err = io.ReadFull(screen, greeting)
	require.NoError(t, err)
	require.Equal(t, "RFB 003.008\n", string(greeting))
}

// S2: a guest is sent to no other thing than the QEMU that waits for it, whatever that one's user puts in the place of its sockets: it runs on
// where it was.
func TestS2AGuestIsSentToAQEMUAlone(t *testing.T) {
	t.Parallel()
	p := goingOn(t, nil, true)
	for _, stream := range []string{compute.StreamState, compute.StreamDisks} {
		in := p.expect()
		socket := filepath.Join(p.b.RunDir, p.s.ID.String()+".move", stream[:1])
		var attacks atomic.Int32
		p.b.cut = func(call string) error {
			if call == stream {
				out, err := asQEMU(p.t, "ln", "-sfn", p.b.daemon.Socket(), socket).CombinedOutput()
				assert.NoError(p.t, err, "%s", out)
				attacks.Add(1)
			}
			return nil
		}
		_, err := p.a.Migrate(t.Context(), in)
		require.Equal(t, compute.Corrupt, compute.KindOf(err), "%v", err)
		require.ErrorContains(t, err, "is no socket")
		require.Positive(t, attacks.Load())
		p.b.cut = nil
		p.staysHere()
	}
}
