package compute_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

func shelvable() compute.Server {
	key := compute.SecretID{UUID: uuid.New()}
	source := compute.ImageID{UUID: uuid.New()}
	return compute.Server{
		ID: compute.ServerID{UUID: uuid.New()}, ProjectID: "p", UserID: "u", Name: "vault",
		Image: compute.Image{ID: source, Properties: map[string]string{"tpm_object_id": "stolen", "tpm_object_sha256": "x", "hw_tpm_version": "1.2", "os": "linux"}},
		TPM:   &compute.TPM{Version: compute.TPM20, Model: compute.TPMCRB, Security: compute.SecurityUser},
		Disks: []compute.Disk{
			{ID: compute.DiskID{UUID: uuid.New()}, Role: compute.RootDisk, Image: &source, Encrypted: true, Format: compute.FormatLUKS, Secret: &key, BackingSecret: &key},
			{ID: compute.DiskID{UUID: uuid.New()}, Role: compute.EphemeralDisk, Encrypted: true, Format: compute.FormatLUKS, Secret: &key},
		},
	}
}

// TPM-23, TPM-38: the image says which vTPM the server has, and nothing of where its state is,
// whatever the image said that the server was made of.
func TestShelveImage(t *testing.T) {
	t.Parallel()
	s := shelvable()
	root, ephemeral := s.ShelveImage(s.Disks[0], "req-1"), s.ShelveImage(s.Disks[1], "req-1")
	require.Equal(t, []string{"vault-shelved", "vault-shelved-disk.eph0"}, []string{root.Name, ephemeral.Name})
	require.NotEqual(t, root.ID, ephemeral.ID)
	require.Equal(t, root.ID, s.ShelveImage(s.Disks[0], "req-1").ID)
	require.Equal(t, []string{"2.0", "tpm-crb", "linux"}, []string{root.Properties["hw_tpm_version"], root.Properties["hw_tpm_model"], root.Properties["os"]})
	for _, key := range []string{"tpm_object_id", "tpm_object_sha256"} {
		require.NotContains(t, root.Properties, key)
		require.False(t, compute.Inherited(key))
	}
	s.TPM = nil
	require.NotContains(t, s.ShelveImage(s.Disks[0], "req-1").Properties, "hw_tpm_version")
}

// TPM-37: another vTPM in the image is refused; none in it is not.
func TestCheckShelvedImage(t *testing.T) {
	t.Parallel()
	tpm := &compute.TPM{Version: compute.TPM20, Model: compute.TPMCRB}
	for _, v := range []struct {
		tpm            *compute.TPM
		version, model string
		ok             bool
	}{
		{tpm, "2.0", "tpm-crb", true}, {tpm, "2.0", "CRB", true}, {tpm, "", "", true}, {nil, "", "", true},
		{tpm, "1.2", "tpm-tis", false}, {tpm, "2.0", "tpm-tis", false}, {tpm, "3.0", "tpm-crb", false}, {nil, "2.0", "tpm-crb", false},
	} {
		err := v.tpm.CheckShelvedImage(compute.Image{Properties: map[string]string{"hw_tpm_version": v.version, "hw_tpm_model": v.model}})
		require.Equal(t, v.ok, err == nil, "%v", err)
		require.True(t, v.ok || compute.Is(err, compute.Conflict), "%v", err)
	}
}

// What comes back has its disks with their ids and keys, in files of their own, and lies on
// no image.
func TestUnshelved(t *testing.T) {
	t.Parallel()
	s := shelvable()
	_, err := s.Unshelved("req-2", compute.UnshelveArguments{})
	require.True(t, compute.Is(err, compute.Corrupt), "it is kept nowhere")
	for i := range s.Disks {
		s.Disks[i].Shelved = &compute.ShelvedDisk{}
	}
	zone := "east"
	will, err := s.Unshelved("req-2", compute.UnshelveArguments{Zone: &zone})
	require.NoError(t, err)
	require.Equal(t, zone, compute.RequestOf(will).Zone)
	require.Empty(t, compute.RequestOf(s).Zone)
	for i, d := range will.Disks {
		require.Equal(t, []any{s.Disks[i].ID, s.Disks[i].Secret}, []any{d.ID, d.Secret})
		require.NotEqual(t, s.Disks[i].Name(), d.Name())
		require.Nil(t, d.BackingSecret)
		require.Nil(t, will.SourceOf(d))
	}
}

// What cannot be made of an image again with its own key is not shelved.
func TestCheckShelve(t *testing.T) {
	t.Parallel()
	s := shelvable()
	require.NoError(t, s.CheckShelve())
	s.Disks[1].Format = compute.FormatLUKSv2
	require.ErrorContains(t, s.CheckShelve(), "its ephemeral0 disk is a logical volume")
	require.Error(t, compute.Server{}.CheckShelve())
}

// TPM-27: what is made is the owner's, with what there is for that.
func TestOwnersCredential(t *testing.T) {
	t.Parallel()
	s := shelvable()
	own := compute.Credential{ID: uuid.New(), ProjectID: "p", UserID: "other"}
	foreign := compute.Credential{ID: uuid.New(), ProjectID: "admins"}
	require.Equal(t, own, s.OwnersCredential(own))
	require.Equal(t, compute.MemberCredential("p"), s.OwnersCredential(foreign))
	s.TPM.Security = compute.SecurityHost
	require.Equal(t, s.Delegated(), s.OwnersCredential(foreign))
}
