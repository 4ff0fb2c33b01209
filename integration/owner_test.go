package integration_test

import (
	"net/http"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/require"
)

// TPM-14, EE-30: who may not read the keys of a server changes nothing; its owner
// starts it afterwards, with the same TPM. TPM-31: an administrator without the
// keys can still delete it.
func TestAdministratorWithoutTheKeys(t *testing.T) {
	c := startedCloud(t)
	id := c.create(t, encryptedTIS)
	c.becomes(t, id, "ACTIVE")
	c.console(t, id, "TG ready", 1)
	owner, stranger := c.compute(t, "-demo"), c.compute(t, "-admin")
	require.NoError(t, servers.Stop(t.Context(), owner, id).ExtractErr())
	c.becomes(t, id, "SHUTOFF")

	require.NoError(t, servers.Start(t.Context(), stranger, id).ExtractErr(), "the request itself is allowed")
	c.becomes(t, id, "SHUTOFF")
	require.Equal(t, "Error", c.newestAction(t, id).Message)
	c.nothingIsLeft(t)

	require.NoError(t, servers.Start(t.Context(), owner, id).ExtractErr())
	c.becomes(t, id, "ACTIVE")
	require.Contains(t, c.console(t, id, "TG ready", 2), "nvcount=2", "the TPM is the same")

	require.NoError(t, servers.Delete(t.Context(), stranger, id).ExtractErr())
	c.gone(t, id)
	c.nothingIsLeft(t)
}

// Another project sees and touches nothing; a reader sees and touches nothing.
func TestOtherPeoplesServers(t *testing.T) {
	c := startedCloud(t)
	id := c.create(t, encrypted)
	c.becomes(t, id, "ACTIVE")
	alt, reader := c.compute(t, "-alt"), c.compute(t, "-reader")

	_, err := servers.Get(t.Context(), alt, id).Extract()
	require.True(t, gophercloud.ResponseCodeIs(err, http.StatusNotFound), "%v", err)
	for name, attempt := range map[string]error{
		"stop":   servers.Stop(t.Context(), alt, id).ExtractErr(),
		"delete": servers.Delete(t.Context(), alt, id).ExtractErr(),
	} {
		require.True(t, gophercloud.ResponseCodeIs(attempt, http.StatusNotFound), "%s: %v", name, attempt)
	}
	_, err = servers.Get(t.Context(), reader, id).Extract()
	require.NoError(t, err)
	err = servers.Delete(t.Context(), reader, id).ExtractErr()
	require.True(t, gophercloud.ResponseCodeIs(err, http.StatusForbidden), "%v", err)
	require.Equal(t, "ACTIVE", c.settled(t, id).Status)
}
