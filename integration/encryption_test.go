package integration_test

import (
	"net/http"
	"os/exec"
	"testing"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// shownDisk is a local disk as strongroom's own part of the API shows it.
type shownDisk struct {
	Role      string            `json:"role"`
	Image     string            `json:"image_id"`
	Encrypted bool              `json:"encrypted"`
	Format    string            `json:"encryption_format"`
	Secret    string            `json:"encryption_secret_uuid"`
	Backing   string            `json:"backing_encryption_secret_uuid"`
	Options   map[string]string `json:"encryption_options"`
}

func (c *testCloud) disks(t *testing.T, id string) []shownDisk {
	t.Helper()
	client := c.compute(t, "-demo")
	client.Microversion = "" // the header below says it
	var shown struct{ Disks []shownDisk }
	response, err := client.Get(t.Context(), client.ServiceURL("servers", id, "disks"), &shown, &gophercloud.RequestOpts{MoreHeaders: extended})
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return shown.Disks
}

// EE-01 … EE-04, EE-06 … EE-09, EE-31: flavor and image say together whether and how
// the disks of a server are encrypted; what they cannot agree on is refused, and
// nothing is made.
func TestEncryptionByFlavorAndImage(t *testing.T) {
	backends(t, local, openStack)
	c := sharedCloud(t)
	asks, removeAsks := c.guestAsking(t, map[string]string{"hw_ephemeral_encryption": "true", "hw_ephemeral_encryption_format": "luks"})
	defer removeAsks()
	odd, removeOdd := c.guestAsking(t, map[string]string{"hw_ephemeral_encryption": "maybe"})
	defer removeOdd()
	unknown, removeUnknown := c.guestAsking(t, map[string]string{"hw_ephemeral_encryption": "true", "hw_ephemeral_encryption_format": "rot13"})
	defer removeUnknown()
	three := flavorSpec{"e2e-three-disks", 128, 1, 1, 64, nil}

	for _, bad := range []struct {
		flavor flavorSpec
		image  string
		code   int
	}{
		{bared, asks, http.StatusConflict},      // EE-02
		{three, odd, http.StatusBadRequest},     // EE-01
		{three, unknown, http.StatusBadRequest}, // EE-04
	} {
		_, err := c.tryCreateOf(t, "-demo", bad.flavor, bad.image)
		require.True(t, gophercloud.ResponseCodeIs(err, bad.code), "%s: %v", bad.flavor.name, err)
	}
	require.Empty(t, c.audit(t).Findings)

	id := c.createOf(t, three, asks)
	c.becomes(t, id, "ACTIVE")
	disks := c.disks(t, id)
	require.Len(t, disks, 3)
	secrets := map[string]bool{}
	for _, d := range disks {
		require.True(t, d.Encrypted, d.Role)
		require.Equal(t, "luks", d.Format, d.Role)
		require.Equal(t, "xts", d.Options["cipher-mode"], d.Role)
		require.Equal(t, d.Role == "root", d.Image == asks, "the root disk alone comes from the image")
		require.Empty(t, d.Backing)
		secrets[d.Secret] = true
	}
	require.Len(t, secrets, 3)
	c.delete(t, id)

	plain := c.createOf(t, unspoken, c.idler)
	c.becomes(t, plain, "ACTIVE")
	for _, d := range c.disks(t, plain) {
		require.False(t, d.Encrypted)
		require.Empty(t, d.Format)
	}
	c.resizeRefused(t, plain, "none", map[string]string{}) // EE-33
	c.delete(t, plain)
}

// EE-35: the one key that a server of the legacy disk encryption has for all of its
// disks moves to them, once, and its start needs a host that can open them.
func TestLegacyKeysMoveToTheDisks(t *testing.T) {
	backends(t, local, openStack)
	c := sharedCloud(t)
	id := c.createOf(t, flavorSpec{"e2e-legacy", 128, 1, 1, 0, nil}, c.idler)
	c.becomes(t, id, "ACTIVE")
	client := c.compute(t, "-demo")
	require.NoError(t, servers.Stop(t.Context(), client, id).ExtractErr())
	c.becomes(t, id, "SHUTOFF")
	db, err := pgx.Connect(t.Context(), databaseURL(t, c))
	require.NoError(t, err)
	defer db.Close(t.Context())
	key := uuid.NewString()
	_, err = db.Exec(t.Context(), "UPDATE servers SET ephemeral_key_uuid = $2 WHERE id = $1", id, key)
	require.NoError(t, err)

	legacy := func(args ...string) (string, int) {
		cmd := exec.Command(c.binary, append([]string{"--config", c.ConfigFile(), "legacy"}, args...)...)
		out, _ := cmd.CombinedOutput()
		return string(out), cmd.ProcessState.ExitCode()
	}
	out, code := legacy("status")
	require.Equal(t, 1, code, out)
	out, code = legacy("migrate")
	require.Equal(t, 0, code, out)
	for range 2 {
		disks := c.disks(t, id)
		require.Len(t, disks, 2)
		for _, d := range disks {
			require.True(t, d.Encrypted)
			require.Equal(t, "plain", d.Format)
			require.Equal(t, key, d.Secret)
		}
		out, code = legacy("migrate")
		require.Equal(t, 0, code, out)
	}
	out, code = legacy("status")
	require.Equal(t, 0, code, out)
	require.NotContains(t, out, key)
	c.delete(t, id)
}
