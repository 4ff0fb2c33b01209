package compute_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

// What was certified of a vTPM goes with it, and with no other one.
func TestWhatIsEndorsedGoesWithTheTPM(t *testing.T) {
	t.Parallel()
	crb := map[string]string{"hw:tpm_version": "2.0", "hw:tpm_model": "tpm-crb"}
	tis := map[string]string{"hw:tpm_version": "2.0"}
	s := compute.Server{
		VMState: compute.VMActive, Flavor: compute.Flavor{ID: "1", ExtraSpecs: crb}, Disks: []compute.Disk{{Role: compute.RootDisk, SizeMB: 1024}},
		TPM: &compute.TPM{Version: compute.TPM20, Model: compute.TPMCRB, Security: compute.SecurityUser, Endorsed: "req-made"},
	}
	same, err := s.ResizedTo("req-resize", compute.Flavor{ID: "2", RootGB: 1, ExtraSpecs: crb})
	require.NoError(t, err)
	require.Equal(t, compute.OperationID("req-made"), same.TPM.Endorsed)
	other, err := s.ResizedTo("req-resize", compute.Flavor{ID: "2", RootGB: 1, ExtraSpecs: tis})
	require.NoError(t, err)
	require.Empty(t, other.TPM.Endorsed)
	former := s.FormerOf("req-resize", "host", "")
	other.Former = &former
	require.Equal(t, compute.OperationID("req-made"), other.Before().TPM.Endorsed)

	require.Empty(t, s.WithTPMLost().TPM.Endorsed)
	require.Equal(t, compute.OperationID("req-made"), s.WithNewTPM(false).TPM.Endorsed)
	require.Equal(t, compute.OperationID("req-made"), s.TPM.Endorsed, "it is another server")
}
