package domain_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/activities/disk"
	"strongroom/activities/domain"
	"strongroom/compute"
	"strongroom/deploy/guest"
)

// typist types on a guest's serial line and reads the answers in its console log.
type typist struct {
	*host
	t      *testing.T
	server compute.Server
	line   net.Conn
}

func (h *host) typist(t *testing.T, s compute.Server) *typist {
	t.Helper()
	line, err := net.Dial("unix", filepath.Join(h.RunDir, s.ID.String()+".sock"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = line.Close() })
	go func() { _, _ = io.Copy(io.Discard, line) }() // what nobody takes holds the guest up
	return &typist{h, t, s, line}
}

// ask types a command and gives what follows the answer's beginning on its line.
func (p *typist) ask(command, answer string) string {
	p.t.Helper()
	had := len(p.said(answer))
	_, err := fmt.Fprintln(p.line, command)
	require.NoError(p.t, err)
	for deadline := time.Now().Add(4 * time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if said := p.said(answer); len(said) > had {
			return said[had]
		}
	}
	require.FailNow(p.t, "no answer to "+command)
	return ""
}

// said gives the ends of the whole lines that begin so.
func (p *typist) said(begin string) (all []string) {
	log, err := p.Console(p.t.Context(), domain.ConsoleInput{Server: p.server.ID})
	require.NoError(p.t, err)
	for line := range strings.SplitAfterSeq(log, "\n") {
		if rest, ok := strings.CutPrefix(line, begin); ok && strings.HasSuffix(rest, "\n") {
			all = append(all, strings.TrimSpace(rest))
		}
	}
	return all
}

// cat gives a file of the guest.
func (p *typist) cat(file string) string {
	p.t.Helper()
	text, err := guest.ReadFile(p.ask, file)
	require.NoError(p.t, err)
	return text
}

// TestGuestReadsItsConfigDrive (EE-32): the disks are where it says and have the
// serials that it says; it lies encrypted on the host.
func TestGuestReadsItsConfigDrive(t *testing.T) {
	t.Parallel()
	h := setup(t, tiny)
	s := h.server(t, true, nil)
	s.ConfigDrive = true
	h.record[s.ID] = s
	h.disksOf(t, s)
	require.NoError(t, h.disks.CreateConfigDrive(t.Context(), disk.ConfigDriveInput{Server: s}))
	_, err := h.Start(t.Context(), domain.StartInput{Server: s})
	require.NoError(t, err)
	require.Empty(t, h.secrets(t))
	h.hear(t, s, "TG ready", 0)
	inside := h.typist(t, s)
	require.Equal(t, "err=<nil>", inside.ask("config", "TG config "))
	require.Equal(t, "user data of test", inside.cat("/config/openstack/latest/user_data"))

	var meta struct {
		Devices []struct{ Type, Address, Serial, Path, Encrypted string }
	}
	require.NoError(t, json.Unmarshal([]byte(inside.cat("/config/openstack/latest/meta_data.json")), &meta))
	require.Len(t, meta.Devices, len(s.Disks))
	for _, d := range meta.Devices {
		name := filepath.Base(d.Path)
		require.Equal(t, "True", d.Encrypted)
		require.Equal(t, d.Serial, inside.cat("/sys/block/"+name+"/serial"))
		require.Contains(t, inside.ask("link /sys/block/"+name, "TG link "), "/pci0000:00/"+d.Address+"/")
	}
	raw, err := os.ReadFile(filepath.Join(h.InstancesDir, s.ID.String(), compute.ConfigDriveFile))
	require.NoError(t, err)
	require.False(t, bytes.Contains(raw, []byte("user data of")))
	require.NoError(t, h.Remove(t.Context(), ofDomain(s.ID)))
}

// TestGuestReadsAPlainConfigDrive, of a server whose disks are not encrypted.
func TestGuestReadsAPlainConfigDrive(t *testing.T) {
	t.Parallel()
	h := setup(t, tiny)
	s := h.server(t, false, nil)
	s.ConfigDrive = true
	h.record[s.ID] = s
	h.disksOf(t, s)
	_, err := h.Start(t.Context(), domain.StartInput{Server: s})
	require.True(t, compute.Is(err, compute.Corrupt), "%v", err)
	require.ErrorContains(t, err, "a disk is missing")
	require.NoError(t, h.disks.CreateConfigDrive(t.Context(), disk.ConfigDriveInput{Server: s}))
	_, err = h.Start(t.Context(), domain.StartInput{Server: s})
	require.NoError(t, err)
	h.hear(t, s, "TG ready", 0)
	inside := h.typist(t, s)
	require.Equal(t, "err=<nil>", inside.ask("config", "TG config "))
	require.Equal(t, "user data of test", inside.cat("/config/openstack/latest/user_data"))
	require.NoError(t, h.Remove(t.Context(), ofDomain(s.ID)))
}
