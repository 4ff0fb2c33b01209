package domain_test

import (
	"encoding/xml"
	"path/filepath"
	"testing"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/stretchr/testify/require"
	"libvirt.org/go/libvirtxml"

	"strongroom/activities/domain"
	"strongroom/compute"
	"strongroom/deploy/dev/libvirtd/libvirttest"
)

// TPM-11: when a guest is about to start, libvirt has the key of its vTPM as a secret of the key manager's id, which nobody
// can read and no file has; when it runs, libvirt has it no more.
func TestTPM11LibvirtHasTheKeyUntilTheGuestRuns(t *testing.T) {
	t.Parallel()
	h := setup(t, idle)
	cfg := h.Config
	cfg.Client = &domain.Client{Socket: filepath.Join(newDir(t), "sock")}
	relay := libvirttest.Listen(t, cfg.Client.Socket, h.daemon.Socket())
	a, err := domain.New(cfg)
	require.NoError(t, err)
	s := h.server(t, false, &compute.TPM{Version: compute.TPM20, Model: compute.TPMCRB})
	h.disksOf(t, s)

	held := relay.HoldStarts(t)
	started := make(chan error, 1)
	go func() {
		_, err := a.Start(t.Context(), domain.StartInput{Server: s, NewTPM: true})
		started <- err
	}()
	select {
	case <-held.Reached:
	case err := <-started:
		require.Fail(t, "it did not come to its start", "%v", err)
	}
	all := h.secrets(t)
	require.Len(t, all, 1)
	require.NoError(t, h.Client.Do(t.Context(), func(l *libvirt.Libvirt) error {
		doc, err := l.SecretGetXMLDesc(all[0], 0)
		require.NoError(t, err)
		var said libvirtxml.Secret
		require.NoError(t, said.Unmarshal(doc))
		said.XMLName = xml.Name{}
		require.Equal(t, libvirtxml.Secret{
			Ephemeral: "yes", Private: "yes", UUID: s.TPM.Secret.String(), Usage: &libvirtxml.SecretUsage{Type: "vtpm", Name: s.ID.String()},
		}, said)
		_, err = l.SecretGetValue(all[0], 0)
		require.ErrorContains(t, err, "is private")
		return nil
	}))
	relay.Release(held)
	require.NoError(t, <-started)
	require.Empty(t, h.secrets(t))
}
