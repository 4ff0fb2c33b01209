package domain_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/activities/domain"
	"strongroom/activities/tpm"
	"strongroom/compute"
)

func TestServerLivesThroughStopAndStart(t *testing.T) {
	t.Parallel()
	h := setup(t, tiny)
	s := h.server(t, true, &compute.TPM{Version: compute.TPM20, Model: compute.TPMCRB})
	h.disksOf(t, s)
	state := filepath.Join(h.daemon.SwtpmDir(), s.ID.String())
	var cloud endorser
	tpms, err := tpm.New(tpm.Config{SwtpmDir: h.daemon.SwtpmDir(), Endorser: &cloud})
	require.NoError(t, err)
	h.TPMs = tpms

	for boot := range 2 {
		var both sync.WaitGroup // an attempt that timed out and its successor
		for range 2 {
			both.Go(func() {
				got, err := h.Start(t.Context(), domain.StartInput{Server: s, NewTPM: boot == 0, Operation: "req-1"})
				require.NoError(t, err)
				require.Equal(t, compute.PowerRunning, got.PowerState)
			})
		}
		both.Wait()
		require.Empty(t, h.secrets(t), "libvirt has given back what it was lent")
		require.Equal(t, []compute.Seen{{Kind: compute.ThingDomain, Name: s.InstanceName()}}, h.seen(t))

		said := h.hear(t, s, "TG ready", boot)
		n := string(rune('1' + boot))
		require.Contains(t, said, "TG rootdisk boots="+n+" err=<nil>")
		require.Contains(t, said, "TG tpm nvcount="+n+" err=<nil>")
		require.Len(t, cloud.gave, 2, "once")
		for i, index := range []string{"0x01c00002", "0x01c00016"} {
			require.Contains(t, said, fmt.Sprintf("TG tpm certificate=%s sha256=%x err=<nil>", index, sha256.Sum256(cloud.gave[i])))
		}
		require.Contains(t, said, "TG disk name=vda mib=64 content=ext4")
		require.Contains(t, said, "TG disk name=vdb mib=1024 content="+[]string{"empty", "data"}[boot])
		require.Contains(t, said, "TG disk name=vdc mib=32 content=empty")
		require.Contains(t, strings.Join(said, "\n"), "TG tpm version=2.0 interface=crb pcr0=")
		h.ask(t, s, "write /dev/vdb kept", "TG write file=/dev/vdb err=<nil>")
		for _, kept := range h.keys.values {
			require.Empty(t, grep(t, h.daemon.LogDir(), kept), "INVARIANT: a passphrase is in a log")
			require.Empty(t, grep(t, h.daemon.SecretsDir()+"/..", kept), "INVARIANT: a passphrase is in a file of libvirt")
		}

		for range 2 {
			got, err := h.Stop(t.Context(), domain.StopInput{Server: s.ID, GraceSeconds: 30})
			require.NoError(t, err)
			require.Equal(t, compute.PowerShutdown, got.PowerState)
		}
		h.hear(t, s, "TG powerbutton", boot)
		require.Zero(t, qemus(t, s))
		require.DirExists(t, state)
	}
	require.Empty(t, grep(t, filepath.Join(h.InstancesDir, s.ID.String(), "disk.eph0"), "kept"), "INVARIANT: what the guest wrote is not on the host's disk")

	require.NoError(t, h.Remove(t.Context(), ofDomain(s.ID)))
	require.DirExists(t, state)
	_, err = h.Start(t.Context(), domain.StartInput{Server: s})
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, h.Remove(t.Context(), ofDomain(s.ID)))
	}
	require.DirExists(t, state, "it is a thing of its own")
	h.removeTPM(t, s)
	require.NoDirExists(t, state)
	require.NoFileExists(t, filepath.Join(h.RunDir, s.ID.String()+".sock"))
	require.Empty(t, h.seen(t))
	_, err = h.Stop(t.Context(), domain.StopInput{Server: s.ID, GraceSeconds: 5})
	require.NoError(t, err, "no domain is off")
}

// endorser stands for the gateway: each certificate is a number.
type endorser struct{ gave [][]byte }

func (*endorser) Endorses(context.Context, compute.ServerID, compute.OperationID) (bool, error) {
	return true, nil
}

func (e *endorser) Endorse(_ context.Context, _ compute.ServerID, _ compute.OperationID, keys [][]byte) ([][]byte, error) {
	var now [][]byte
	for range keys {
		now = append(now, bytes.Repeat([]byte{byte(len(e.gave) + len(now) + 1)}, 1200))
	}
	e.gave = append(e.gave, now...)
	return now, nil
}

// Older vTPMs, with a BIOS, on machine types that are not the host's.
func TestStartOlderTPMs(t *testing.T) {
	t.Parallel()
	h := setup(t, tiny)
	for version, machine := range map[compute.TPMVersion]string{compute.TPM12: compute.MachinePC, compute.TPM20: "pc-q35-7.2"} {
		t.Run(string(version), func(t *testing.T) {
			s := h.server(t, false, &compute.TPM{Version: version, Model: compute.TPMTIS})
			s.Image.Properties = map[string]string{"hw_machine_type": machine}
			h.disksOf(t, s)
			_, err := h.Start(t.Context(), domain.StartInput{Server: s})
			require.NoError(t, err)
			require.Empty(t, h.secrets(t))
			said := h.hear(t, s, "TG tpm version="+string(version)+" interface=tis pcr0=", 0)
			require.Contains(t, said[len(said)-1], "err=<nil>")
			require.NoError(t, h.Remove(t.Context(), ofDomain(s.ID)))
		})
	}
}

func TestStartWithTheWrongKey(t *testing.T) {
	t.Parallel()
	h := setup(t, idle)
	s := h.server(t, false, &compute.TPM{Version: compute.TPM20, Model: compute.TPMTIS})
	d := &s.Disks[0]
	d.Encrypted, d.Format, d.Secret = true, compute.FormatLUKS, h.keys.make(t, compute.DiskPassphraseBytes)
	h.disksOf(t, s)
	start := func() error {
		_, err := h.Start(t.Context(), domain.StartInput{Server: s})
		require.Empty(t, h.secrets(t))
		return err
	}
	require.NoError(t, start())
	_, err := h.Stop(t.Context(), domain.StopInput{Server: s.ID})
	require.NoError(t, err)

	for name, id := range map[string]compute.SecretID{"disk": *d.Secret, "TPM": *s.TPM.Secret} {
		right := h.keys.change(t, id, compute.DiskPassphraseBytes)
		err := start()
		require.Equal(t, compute.Corrupt, compute.KindOf(err), "%s: %v", name, err)
		h.keys.set(id, "")
		err = start()
		require.Equal(t, compute.Forbidden, compute.KindOf(err), "%s: %v", name, err)
		require.Zero(t, qemus(t, s))
		h.keys.set(id, right)
	}
	require.NoError(t, start(), "disk and TPM are as they were (TPM-14)")
}

func TestStartRefuses(t *testing.T) {
	t.Parallel()
	h := setup(t, idle)
	for name, c := range map[string]struct {
		kind  compute.Kind
		spoil func(*compute.Server)
	}{
		"no server": {compute.Invalid, func(s *compute.Server) { s.ID = compute.ServerID{} }},
		"no folder": {compute.Corrupt, func(*compute.Server) {}},
		"no disk": {compute.Corrupt, func(s *compute.Server) {
			require.NoError(t, os.Mkdir(filepath.Join(h.InstancesDir, s.ID.String()), 0o711))
		}},
		"unknown network": {compute.NotFound, func(s *compute.Server) { s.Networks = []compute.Network{{UUID: id(9).String()}} }},
		"odd network":     {compute.Invalid, func(s *compute.Server) { s.Networks = []compute.Network{{UUID: "blue"}} }},
		"odd machine":     {compute.Invalid, func(s *compute.Server) { s.Flavor.VCPUs = 100_000 }},
	} {
		s := h.server(t, false, nil)
		c.spoil(&s)
		_, err := h.Start(t.Context(), domain.StartInput{Server: s})
		require.Equal(t, c.kind, compute.KindOf(err), "%s: %v", name, err)
	}
}
