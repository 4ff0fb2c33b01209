package compute_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

var asker = compute.Credential{ID: uuid.New(), ProjectID: "asker's", UserID: "somebody"}

// The flavor's word decides with which credentials keys are opened.
func TestKeyring(t *testing.T) {
	t.Parallel()
	disk, tpm := "hw:ephemeral_encryption_secret_security", compute.TPM{Version: compute.TPM20}
	s := compute.Server{ID: server, ProjectID: "owner's", UserID: "owner", Disks: []compute.Disk{{Encrypted: true}}}
	delegated := compute.DelegatedCredential(server, "owner's", "owner")
	for name, c := range map[string]struct {
		disks, tpm compute.SecretSecurity
		want       compute.Keyring
		delegates  bool
	}{
		"nothing said":   {"", "", compute.Keyring{Disks: asker, TPM: asker}, false},
		"user":           {"user", "user", compute.Keyring{Disks: asker, TPM: asker}, false},
		"host":           {"host", "host", compute.Keyring{Disks: delegated, TPM: delegated}, true},
		"host for disks": {"host", "user", compute.Keyring{Disks: delegated, TPM: asker}, true},
		"host for TPM":   {"user", "host", compute.Keyring{Disks: asker, TPM: delegated}, true},
		"deployment":     {"deployment", "deployment", compute.Keyring{Disks: compute.DeploymentCredential(), TPM: compute.DeploymentCredential()}, false},
	} {
		s, tpm := s, tpm
		if c.disks != "" {
			s.Flavor.ExtraSpecs = map[string]string{disk: string(c.disks)}
		}
		if c.tpm != "" {
			tpm.Security = c.tpm
			s.TPM = &tpm
		}
		c.want.Rescue = asker
		require.Equal(t, c.want, s.Keyring(asker), name)
		require.Equal(t, c.delegates, s.Delegates(), name)
	}
	s.Flavor.ExtraSpecs = map[string]string{disk: "host"}
	s.Disks[0].Encrypted = false
	require.False(t, s.Delegates(), "no encrypted disk, no key to delegate")

	_, err := compute.DiskSecurity(compute.Flavor{Name: "f", ExtraSpecs: map[string]string{disk: "all"}})
	require.True(t, compute.Is(err, compute.Invalid), "%v", err)
}

// TPM-15: a server starts without its owner if nobody but strongroom, or whom the owner
// delegated to, must read a key.
func TestStartsUnattended(t *testing.T) {
	t.Parallel()
	disk := "hw:ephemeral_encryption_secret_security"
	for name, c := range map[string]struct {
		encrypted   bool
		disks       string
		tpm         compute.SecretSecurity
		backing     bool
		wantToStart bool
	}{
		"plain":                          {wantToStart: true},
		"encrypted":                      {encrypted: true},
		"encrypted, user":                {encrypted: true, disks: "user"},
		"encrypted, host":                {encrypted: true, disks: "host", wantToStart: true},
		"encrypted, deployment":          {encrypted: true, disks: "deployment", wantToStart: true},
		"vTPM, user":                     {tpm: "user"},
		"vTPM, host":                     {tpm: "host", wantToStart: true},
		"disks deployment, vTPM user":    {encrypted: true, disks: "deployment", tpm: "user"},
		"disks host, vTPM deployment":    {encrypted: true, disks: "host", tpm: "deployment", wantToStart: true},
		"an encrypted image under it":    {backing: true},
		"an encrypted image, deployment": {backing: true, disks: "deployment", wantToStart: true},
	} {
		id := compute.SecretID{UUID: uuid.New()}
		s := compute.Server{ID: server, ProjectID: "p", UserID: "u", Disks: []compute.Disk{{Role: compute.RootDisk, Encrypted: c.encrypted}}}
		if c.backing {
			s.Disks[0].BackingSecret = &id
		}
		if c.disks != "" {
			s.Flavor.ExtraSpecs = map[string]string{disk: c.disks}
		}
		if c.tpm != "" {
			s.TPM = &compute.TPM{Version: compute.TPM20, Security: c.tpm}
		}
		require.Equal(t, c.wantToStart, s.StartsUnattended(), name)
	}
}

// A stranger's credential is not tried: in his project there is nothing, and a
// key manager would call that a success.
func TestRemovers(t *testing.T) {
	t.Parallel()
	owners := compute.Credential{ID: uuid.New(), ProjectID: "p", UserID: "owner"}
	thing := compute.Thing{Kind: compute.ThingKeySecret, Owner: compute.ServerOwner(server), Credential: owners}
	delegated, member := compute.DelegatedCredential(server, "p", "owner"), compute.MemberCredential("p")
	require.Equal(t, []compute.Credential{owners, delegated, member}, thing.Removers(owners))
	require.Equal(t, []compute.Credential{delegated, member}, thing.Removers(asker))
	require.Equal(t, []compute.Credential{delegated, member}, thing.Removers(delegated), "each once")
	thing.Credential = compute.DeploymentCredential()
	require.Equal(t, []compute.Credential{compute.DeploymentCredential()}, thing.Removers(asker))
}
