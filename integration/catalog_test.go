package integration_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/require"
)

// The standard client finds strongroom in the catalog of a real Keystone. While the
// server lives, the user's project has one secret per encrypted disk and one for the
// TPM, and none afterwards. P17: the client shows limits and quotas, for which it asks compute and volumes at once.
func TestRealCloudThroughCatalog(t *testing.T) {
	backends(t, openStack)
	c := ownCloud(t)
	admin, demo, alt := c.python(t, ""), c.python(t, "-demo"), c.python(t, "-alt")
	admin.run("flavor", "create", "catalog", "--vcpus", "1", "--ram", "192", "--disk", "1", "--ephemeral", "1", "--swap", "64",
		"--property", "hw:ephemeral_encryption=true", "--property", "hw:tpm_version=2.0", "--property", "hw:tpm_model=tpm-crb")
	require.Empty(t, demo.list("secret", "list"))
	created := demo.show("server", "create", "catalog", "--flavor", "catalog", "--image", "tiny", "--nic", "none", "--wait")
	require.Equal(t, "ACTIVE", created["status"])
	id := fmt.Sprint(created["id"])
	c.console(t, id, "TG tpm version=2.0", 1)

	kinds := map[string]int{}
	secrets := demo.list("secret", "list")
	for _, s := range secrets {
		require.Contains(t, s["Name"], id)
		require.Equal(t, "ACTIVE", s["Status"])
		require.Equal(t, "passphrase", s["Secret type"])
		kinds[strings.Fields(strings.TrimPrefix(fmt.Sprint(s["Name"]), "strongroom server "+id))[0]]++
	}
	require.Equal(t, map[string]int{"disk": 3, "vtpm": 1}, kinds)
	require.Empty(t, alt.list("secret", "list"), "they are the user's project's")
	require.Empty(t, c.python(t, "-strongroom").list("secret", "list"))

	require.Equal(t, id, demo.show("server", "show", "catalog")["id"])
	require.Contains(t, demo.run("server", "list"), id)
	require.NotContains(t, alt.run("server", "list"), id)
	_, complaint, err := alt.try("server", "delete", id)
	require.Error(t, err)
	require.Contains(t, complaint, "No server with a name or ID")
	require.Contains(t, c.python(t, "-reader").run("server", "list"), id)
	_, complaint, err = c.python(t, "-reader").try("server", "delete", id)
	require.Error(t, err)
	require.Contains(t, complaint, "403")
	require.Contains(t, c.python(t, "-admin").run("server", "list", "--all-projects"), id)

	limits := demo.list("limits", "show", "--absolute") // P17: of compute and of volumes
	require.Contains(t, limits, map[string]any{"Name": "totalInstancesUsed", "Value": 1.0})
	require.Contains(t, limits, map[string]any{"Name": "maxTotalVolumes", "Value": 0.0})
	quota := demo.run("quota", "show")
	for _, resource := range []string{"instances", "volumes", "per-volume-gigabytes", "backup-gigabytes"} {
		require.Contains(t, quota, resource)
	}

	demo.run("server", "delete", "--wait", "catalog")
	require.NotContains(t, demo.run("server", "list"), id)
	require.Empty(t, demo.list("secret", "list"))
	admin.run("flavor", "delete", "catalog")
	c.nothingIsLeft(t)
}

// EE-10, TPM-40: who may not make secrets, which a vTPM needs, too, is told so at once, and which role lacks;
// nothing is left.
func TestMemberMayNotMakeSecrets(t *testing.T) {
	backends(t, openStack)
	c := sharedCloud(t)
	member := c.compute(t, "-member")
	for _, f := range []flavorSpec{encryptedTPM, tpmAlone} {
		err := servers.Create(t.Context(), member, servers.CreateOpts{
			Name: "no-creator", FlavorRef: c.flavor(t, f), ImageRef: c.image, Networks: "none",
		}, nil).Err
		require.True(t, gophercloud.ResponseCodeIs(err, http.StatusForbidden), "%v", err)
		require.ErrorContains(t, err, "may not store secrets in the key manager in this project (there the role is usually called creator)")
	}
	require.Empty(t, listed(t, member, servers.ListOpts{Name: "no-creator"}))
	c.nothingIsLeft(t)
}
