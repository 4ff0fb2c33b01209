package integration_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/deploy/cloud/clienttest"
)

// python is Debian's client, as one user (see entry).
type python struct {
	t      *testing.T
	client clienttest.Client
}

// try runs the client and gives what it printed, and its complaint.
func (p python) try(args ...string) (out, complaint string, err error) {
	p.t.Helper()
	return p.client.Run(p.t, args...)
}

// run is try that must succeed.
func (p python) run(args ...string) string {
	p.t.Helper()
	out, complaint, err := p.try(args...)
	require.NoError(p.t, err, "%s%s", out, complaint)
	return out
}

// show is run with -f json.
func (p python) show(args ...string) (out map[string]any) {
	p.t.Helper()
	p.client.Decode(p.t, &out, args...)
	return out
}

// list is show of what has many rows.
func (p python) list(args ...string) (out []map[string]any) {
	p.t.Helper()
	p.client.Decode(p.t, &out, args...)
	return out
}

// python gives the standard client.
func (c *testCloud) python(t *testing.T, user string) python {
	t.Helper()
	return python{t: t, client: clienttest.Open(t, "OS_CLIENT_CONFIG_FILE="+c.CloudsFile(), "OS_CLOUD="+c.entry(user))}
}

// The standard client, from the upload of an image to the delete of a server.
func TestOpenStackClient(t *testing.T) {
	backends(t, local, openStack)
	c := sharedCloud(t)
	openstack := c.python(t, "")
	openstack.run("image", "create", clientImage, "--file", c.guest, "--disk-format", "qcow2", "--property", "hw_tpm_version=2.0")
	require.Equal(t, "active", openstack.show("image", "show", clientImage)["status"])
	openstack.run("flavor", "create", "osc.encrypted", "--vcpus", "1", "--ram", "192", "--disk", "1",
		"--property", "hw:ephemeral_encryption=true", "--property", "hw:tpm_version=2.0", "--property", "hw:tpm_model=tpm-crb")
	created := openstack.show("server", "create", "osc", "--flavor", "osc.encrypted", "--image", clientImage, "--nic", "none", "--wait")
	require.Equal(t, "ACTIVE", created["status"])
	id := created["id"].(string)
	shown := openstack.show("server", "show", "osc")
	require.Equal(t, id, shown["id"])
	require.Contains(t, openstack.run("server", "list", "--long"), "osc.encrypted")
	c.console(t, id, "TG ready", 1)
	require.Contains(t, openstack.run("console", "log", "show", "osc"), "TG tpm version=2.0")
	openstack.run("server", "stop", "osc")
	c.becomes(t, id, "SHUTOFF")
	openstack.run("server", "start", "osc")
	c.becomes(t, id, "ACTIVE")
	if c.real == nil {
		types := openstack.list("volume", "type", "list", "--default")
		require.Len(t, types, 1)
		require.Equal(t, "__DEFAULT__", types[0]["Name"])
	}
	events := openstack.run("server", "event", "list", "osc")
	for _, action := range []string{"create", "stop", "start"} {
		require.Contains(t, events, action)
	}
	openstack.run("server", "delete", "--wait", "osc")
	require.NotContains(t, openstack.run("server", "list"), id)
	openstack.run("image", "delete", clientImage)
	openstack.run("flavor", "delete", "osc.encrypted")
	c.nothingIsLeft(t)
}
