package domain_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/activities/domain"
	"strongroom/compute"
)

// TPM-29: a server's new disks are made beside the old ones while its guest runs,
// its domain runs on them without its vTPM, and what it was comes back when that is
// undone: the old disks and all that the vTPM holds.
func TestServerIsMadeAnewAndBack(t *testing.T) {
	t.Parallel()
	h := setup(t, tiny)
	s := h.server(t, true, &compute.TPM{Version: compute.TPM20, Model: compute.TPMCRB})
	h.disksOf(t, s)
	state := filepath.Join(h.daemon.SwtpmDir(), s.ID.String())
	boot := func(s compute.Server, n int, says ...string) {
		t.Helper()
		_, err := h.Start(t.Context(), domain.StartInput{Server: s})
		require.NoError(t, err)
		said := h.hear(t, s, "TG ready", n)
		for _, line := range says {
			require.Contains(t, said, line)
		}
	}
	boot(s, 0, "TG rootdisk boots=1 err=<nil>", "TG tpm nvcount=1 err=<nil>")

	image := s.Image
	image.VirtualBytes, image.Properties = h.rootMB<<20, map[string]string{"hw_ephemeral_encryption": "true"}
	anew, err := s.RebuiltAs("req-rebuild", compute.RebuildArguments{Image: image}, compute.FormatLUKS)
	require.NoError(t, err)
	require.Nil(t, anew.TPM)
	for i := range anew.Disks {
		anew.Disks[i].Secret = h.keys.make(t, compute.DiskPassphraseBytes)
	}
	h.disksOf(t, anew)
	_, err = h.Stop(t.Context(), domain.StopInput{Server: s.ID})
	require.NoError(t, err)
	boot(anew, 1, "TG rootdisk boots=1 err=<nil>", "TG tpm none")
	require.DirExists(t, state, "a domain without it leaves it alone")
	_, err = h.Stop(t.Context(), domain.StopInput{Server: s.ID})
	require.NoError(t, err)

	for _, d := range anew.Disks {
		require.NoError(t, h.disks.Remove(t.Context(), ofFile(s.ID, d.Name())))
	}
	boot(s, 2, "TG rootdisk boots=2 err=<nil>", "TG tpm nvcount=2 err=<nil>")
	require.Empty(t, h.secrets(t))
	require.NoError(t, h.Remove(t.Context(), ofDomain(s.ID)))
	require.DirExists(t, state, "it is a thing of its own")
	h.removeTPM(t, s)
	require.NoDirExists(t, state)
}
