package compute_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

// TPM-30, EE-29: an evacuated server has its disks and its vTPM under their keys, and nothing that was
// in them. One that was unshelved leans on its image again.
func TestEvacuatedAs(t *testing.T) {
	t.Parallel()
	s := resizable(flavorOf("from", 2, 1, 64, "hw:tpm_version", "2.0"))
	s.Disks[0].Image, s.Disks[0].File, s.Disks[0].EncryptionOptions = nil, "disk.1234abcd", map[string]string{"cipher-alg": "aes-256"}
	was := s
	out, err := s.EvacuatedAs("req-evacuate")
	require.NoError(t, err)
	require.Equal(t, was.Secrets(), out.Secrets())
	require.Equal(t, s.Image.ID, *out.Disks[0].Image)
	for i, d := range out.Disks {
		require.Equal(t, []any{was.Disks[i].ID, was.Disks[i].File, was.Disks[i].SizeMB}, []any{d.ID, d.File, d.SizeMB})
		require.Empty(t, d.EncryptionOptions, "it is noted how it is encrypted now")
	}
	require.True(t, out.Unbooted() && out.HasNewTPM())
	require.False(t, was.Unbooted() || was.HasNewTPM(), "the server itself is not changed")
	require.Len(t, out.EvacuationKeys(true), 4)
	require.NotContains(t, out.EvacuationKeys(false), *s.TPM.Secret)
	require.NotNil(t, out.TPM)
	require.Contains(t, s.TPMLost("was lost with its host"), "was lost with its host")
	require.Empty(t, out.TPMLost("was lost with its host"), "it had none yet")

	s.TPM = nil
	out, err = s.EvacuatedAs("req-evacuate")
	require.NoError(t, err)
	require.False(t, out.HasNewTPM())
	require.Empty(t, s.TPMLost("was lost with its host"))

	former := s.FormerOf("req-x", "node-1", "AUTO")
	s.Former = &former
	_, err = s.EvacuatedAs("req-evacuate")
	require.Equal(t, compute.Conflict, compute.KindOf(err))
	_, err = compute.Server{ID: s.ID}.EvacuatedAs("req-evacuate")
	require.Equal(t, compute.Conflict, compute.KindOf(err))
}

// The key of an encrypted image, gone when the server was unshelved, is made again in its
// owner's project only.
func TestCheckEvacuator(t *testing.T) {
	t.Parallel()
	s := resizable(flavorOf("from", 2, 1, 64))
	own := compute.Credential{ID: uuid.New(), ProjectID: s.ProjectID, UserID: "u2"}
	admin := compute.Credential{ID: uuid.New(), ProjectID: "p2", UserID: "u2"}
	require.NoError(t, s.CheckEvacuator(s, admin))
	s.Image.Properties = map[string]string{"os_encrypt_key_id": uuid.NewString(), "os_encrypt_format": "LUKSv1"}
	require.True(t, s.Image.IsEncrypted())
	require.NoError(t, s.CheckEvacuator(s, own))
	require.Equal(t, compute.Forbidden, compute.KindOf(s.CheckEvacuator(s, admin)))
	s.Disks[0].BackingSecret = &compute.SecretID{UUID: uuid.New()}
	require.NoError(t, s.CheckEvacuator(s, admin))
}
