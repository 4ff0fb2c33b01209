package integration_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/keymanager/v1/secrets"
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
	asks, removeAsks := c.imageAsking(t, c.idle, map[string]string{"hw_ephemeral_encryption": "true", "hw_ephemeral_encryption_format": "luks"})
	defer removeAsks()
	odd, removeOdd := c.imageAsking(t, c.idle, map[string]string{"hw_ephemeral_encryption": "maybe"})
	defer removeOdd()
	unknown, removeUnknown := c.imageAsking(t, c.idle, map[string]string{"hw_ephemeral_encryption": "true", "hw_ephemeral_encryption_format": "rot13"})
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
// disks moves to them, once. EE-48: from then on the key is on the ledger, and is deleted
// with the server.
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
	key := c.novaKey(t)
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
	require.Contains(t, out, "deprecated: servers.ephemeral_key_uuid")
	rows := func(state string) (n int) {
		require.NoError(t, db.QueryRow(t.Context(), `SELECT count(*) FROM ledger WHERE kind = 'key_secret' AND reference = $1 AND state = $2`, key, state).Scan(&n))
		return n
	}
	require.Equal(t, 1, rows("present"))
	for _, f := range c.audit(t).Findings {
		require.NotContains(t, fmt.Sprint(f), key, "no list has it, and it is not missing")
		require.NotContains(t, fmt.Sprint(f), id)
	}
	c.delete(t, id)
	require.Equal(t, 1, rows("released"))
	if c.real != nil {
		_, err = secrets.Get(t.Context(), c.service(t, "-demo", openstack.NewKeyManagerV1), key).Extract()
		require.True(t, gophercloud.ResponseCodeIs(err, http.StatusNotFound), "%v", err)
	}
}

// novaKey is a secret of the project demo that strongroom did not make.
func (c *testCloud) novaKey(t *testing.T) string {
	t.Helper()
	if c.real == nil {
		return uuid.NewString()
	}
	s, err := secrets.Create(t.Context(), c.service(t, "-demo", openstack.NewKeyManagerV1), secrets.CreateOpts{
		Name: novaSecret, SecretType: secrets.PassphraseSecret, Payload: strings.Repeat("00c0ffee", 16), PayloadContentType: "text/plain",
	}).Extract()
	require.NoError(t, err)
	return path.Base(s.SecretRef)
}

// EE-48: servers of Nova's legacy disk encryption are imported to hosts that open their disks;
// the file is all right, or nothing is done.
func TestLegacyImportIsRefused(t *testing.T) {
	backends(t, local, openStack)
	c := sharedCloud(t)
	db, err := pgx.Connect(t.Context(), databaseURL(t, c))
	require.NoError(t, err)
	defer db.Close(t.Context())
	var host string
	require.NoError(t, db.QueryRow(t.Context(), "SELECT name FROM hosts ORDER BY name LIMIT 1").Scan(&host))
	id := uuid.NewString()
	refused := func(host, hash, why string) {
		file := filepath.Join(t.TempDir(), "servers.yaml")
		require.NoError(t, os.WriteFile(file, []byte("servers: [{id: "+id+", host: "+host+", project_id: p, user_id: u, name: db1, key: "+uuid.NewString()+
			", flavor: {name: small, vcpus: 1, memory_mb: 128, root_gb: 1}, encryption: {hash: "+hash+"}}]\n"), 0o600))
		out, err := c.strongroom("--config", c.ConfigFile(), "legacy", "import", file)
		require.Error(t, err)
		require.Contains(t, out, why)
		var n int
		require.NoError(t, db.QueryRow(t.Context(), "SELECT count(*) FROM servers WHERE id = $1", id).Scan(&n))
		require.Zero(t, n)
	}
	refused("nowhere", "sha256", "there is no host nowhere")
	refused(host, "--readonly", "it must be the name of a hash")
	refused(host, "sha256", "cannot open such disks: it has no trait COMPUTE_EPHEMERAL_ENCRYPTION_PLAIN")
}
