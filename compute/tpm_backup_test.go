package compute_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

// TPM-30: an evacuated server gets the state of its backup if that is of the vTPM that it has, with
// its key; a backup of another one is not its own, and does not come back.
func TestBackup(t *testing.T) {
	t.Parallel()
	s := resizable(flavorOf("from", 2, 1, 64, "hw:tpm_version", "2.0"))
	stored := compute.StoredTPM{Object: compute.TPMBackupObject(s.ID, "req-1"), SHA256: "ab"}
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	s.TPMBackup = &compute.TPMBackup{StoredTPM: stored, Of: *s.TPM, Generation: 3, At: at}
	thing := compute.Thing{Kind: compute.ThingObject, Place: compute.PlaceObjects, Name: stored.Object}
	require.Equal(t, s.TPMBackup, s.Backup())
	require.True(t, s.Uses(*s.Host, thing))
	out, err := s.EvacuatedAs("req-evacuate")
	require.NoError(t, err)
	require.False(t, out.HasNewTPM())
	require.Equal(t, s.TPMBackup, out.Backup())
	require.Contains(t, s.TPMRestored(*s.TPMBackup), "its backup 3, of 2026-11-20T12:00:00Z")

	for name, change := range map[string]func(*compute.TPM){
		"version": func(tpm *compute.TPM) { tpm.Version = compute.TPM12 },
		"key":     func(tpm *compute.TPM) { tpm.Secret = &compute.SecretID{UUID: uuid.New()} },
		"no key":  func(tpm *compute.TPM) { tpm.Secret = nil },
	} {
		other, has := s, *s.TPM
		change(&has)
		other.TPM = &has
		require.Nil(t, other.Backup(), name)
		require.False(t, other.Uses(*s.Host, thing), name)
		out, err := other.EvacuatedAs("req-evacuate")
		require.NoError(t, err)
		require.True(t, out.HasNewTPM() && out.TPMBackup == nil, name)
	}
	owner, ok := compute.Finding{Kind: compute.ThingObject, Name: stored.Object}.Server()
	require.True(t, ok)
	require.Equal(t, s.ID, owner)
}
