package integration_test

import (
	"net/http"
	"path/filepath"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/gophercloud/gophercloud/v2/openstack/keymanager/v1/acls"
	"github.com/gophercloud/gophercloud/v2/openstack/keymanager/v1/secrets"
	"github.com/stretchr/testify/require"
)

// deployed is a flavor whose servers' keys are strongroom's own.
var deployed = flavorSpec{"e2e-deployed", 192, 1, 0, 0, map[string]string{
	"hw:ephemeral_encryption": "true", "hw:ephemeral_encryption_secret_security": "deployment",
	"hw:tpm_version": "2.0", "hw:tpm_secret_security": "deployment",
}}

// namesTheRole requires that what is told of a refusal says which secret it is of, and what whoever
// asked needs. (What strongroom dev brings along knows no roles.)
func (c *testCloud) namesTheRole(t *testing.T, why string) {
	t.Helper()
	if c.real != nil {
		require.Regexp(t, "read secret [0-9a-f-]{36}: the service answered 403 forbidden", why)
		require.Contains(t, why, "usually creator")
	}
}

// EE-39, EE-15: an image is made with a secret of another project or user where its ACL lets whoever
// asks read it, and boots; without it the image is refused, says why, and leaves nothing.
func TestEE39ImageWithAnothersSecret(t *testing.T) {
	backends(t, openStack)
	c := ownCloud(t)
	id := c.createIdle(t, encrypted)
	c.becomes(t, id, "ACTIVE")
	for name, v := range map[string]struct {
		owner  string
		shared bool // by its project, as long as there is no ACL
	}{
		"another project's":                  {"-alt", false},
		"another user's, who keeps it":       {"-demo2", false},
		"another user's of the same project": {"-demo2", true},
	} {
		keys := c.service(t, v.owner, openstack.NewKeyManagerV1)
		value := "the passphrase of " + v.owner
		stored, err := secrets.Create(t.Context(), keys, secrets.CreateOpts{
			Name: name, SecretType: secrets.PassphraseSecret, Payload: value, PayloadContentType: "text/plain",
		}).Extract()
		require.NoError(t, err)
		secret := filepath.Base(stored.SecretRef)
		with := map[string]any{"key": "existing", "secret_uuid": secret}
		no := false
		if !v.shared {
			require.NoError(t, acls.SetSecretACL(t.Context(), keys, secret, acls.SetOpts{{Type: "read", ProjectAccess: &no}}).Err)
			img, err := c.imageAs(t, "-demo", id, with)
			require.NoError(t, err)
			c.becomes(t, id, "ACTIVE")
			why := c.refusedBecause(t, id)
			require.Contains(t, why, "read_image_secret: read secret "+secret, name)
			require.Contains(t, why, "its owner can add the user to its ACL", name)
			require.NotContains(t, why, value)
			told := c.toldWhy(t, id, "-demo")
			require.Contains(t, told.Message, "read secret "+secret, name)
			_, err = images.Get(t.Context(), c.imageService(t, "-demo"), img).Extract()
			require.True(t, gophercloud.ResponseCodeIs(err, http.StatusNotFound), "%s: %v", name, err)
			require.Empty(t, c.audit(t).Findings)
			users := []string{c.userID(t, "-demo")}
			require.NoError(t, acls.SetSecretACL(t.Context(), keys, secret, acls.SetOpts{{Type: "read", ProjectAccess: &no, Users: &users}}).Err)
		}
		made, err := c.imageAs(t, "-demo", id, with)
		require.NoError(t, err)
		img := c.whole(t, id, made)
		require.Equal(t, secret, img.Properties["os_encrypt_key_id"], name)
		require.NotEqual(t, "True", img.Properties["os_encrypt_key_deletion_policy"], name)
		copied := c.createOf(t, unspoken, img.ID)
		c.becomes(t, copied, "ACTIVE")
		c.delete(t, copied)
		require.NoError(t, secrets.Get(t.Context(), keys, secret).Err, "it stays its owner's")
		require.NoError(t, images.Delete(t.Context(), c.imageService(t, "-demo"), img.ID).ExtractErr())
		require.NoError(t, secrets.Delete(t.Context(), keys, secret).ExtractErr())
	}
	c.delete(t, id)
	c.nothingIsLeft(t)
}

// TPM-40: without the key manager's role a request fails early, and says which role it is.
func TestTPM40WithoutTheKeyManagersRole(t *testing.T) {
	backends(t, openStack)
	c := ownCloud(t)
	for _, f := range []flavorSpec{tpmAlone, encrypted} {
		_, err := c.tryCreateOf(t, "-member", f, c.idler)
		require.True(t, gophercloud.ResponseCodeIs(err, http.StatusForbidden), "%v", err)
		require.ErrorContains(t, err, "there the role is usually called creator")
	}
	require.Empty(t, listed(t, c.compute(t, "-demo"), servers.ListOpts{Name: "testtpm40"}))
	c.nothingIsLeft(t)
	id := c.createIdle(t, tpmAlone)
	c.becomes(t, id, "ACTIVE")
	c.shutOff(t, id)
	require.NoError(t, servers.Start(t.Context(), c.compute(t, "-member"), id).ExtractErr(), "the request itself is allowed")
	c.becomes(t, id, "SHUTOFF")
	c.namesTheRole(t, c.refusedBecause(t, id))
	c.namesTheRole(t, c.toldWhy(t, id, "-member").Message)
	c.startAgain(t, id)
	c.delete(t, id)
	c.nothingIsLeft(t)
}

// EE-30: where a flavor lets strongroom open the keys, an administrator of another project
// starts, reboots and deletes a server, with its keys.
func TestEE30AdministratorStartsWhatStrongroomOpens(t *testing.T) {
	backends(t, openStack, local)
	t.Parallel()
	for _, f := range []flavorSpec{delegated, deployed} {
		t.Run(f.name, func(t *testing.T) {
			c := ownCloud(t)
			id := c.createIdle(t, f)
			c.becomes(t, id, "ACTIVE")
			c.shutOff(t, id)
			stranger := c.compute(t, "-admin")
			require.NoError(t, servers.Start(t.Context(), stranger, id).ExtractErr())
			c.becomes(t, id, "ACTIVE")
			require.Empty(t, c.newestAction(t, id).Message)
			require.NoError(t, servers.Reboot(t.Context(), stranger, id, servers.RebootOpts{Type: servers.HardReboot}).ExtractErr())
			c.becomes(t, id, "ACTIVE")
			require.Empty(t, c.newestAction(t, id).Message)
			require.NoError(t, servers.Delete(t.Context(), stranger, id).ExtractErr())
			c.goneAs(t, "-reader", id)
			c.nothingIsLeft(t)
		})
	}
}
