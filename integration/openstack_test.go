package integration_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"strongroom/deploy/dev/stack"
)

func readYAML(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, into))
}

// openstack runs Debian's client and gives what it printed.
func (c *testCloud) openstack(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("openstack", append([]string{"--os-cloud", stack.CloudName}, args...)...)
	cmd.Env = append(os.Environ(), "OS_CLIENT_CONFIG_FILE="+c.CloudsFile())
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "openstack %s: %s%s", strings.Join(args, " "), out, stderr.String())
	return string(out)
}

// openstackJSON is openstack with -f json.
func (c *testCloud) openstackJSON(t *testing.T, args ...string) map[string]any {
	t.Helper()
	var out map[string]any
	require.NoError(t, json.Unmarshal([]byte(c.openstack(t, append(args, "-f", "json")...)), &out))
	return out
}

// The standard client, from the upload of an image to the delete of a server.
func TestOpenStackClient(t *testing.T) {
	c := startedCloud(t)
	if _, err := exec.LookPath("openstack"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("python3-openstackclient is not installed")
		}
		t.Skip("needs python3-openstackclient")
	}
	file := filepath.Join(filepath.Dir(c.State), "guest.qcow2")
	c.openstack(t, "image", "create", "osc-guest", "--file", file, "--disk-format", "qcow2", "--property", "hw_tpm_version=2.0")
	require.Equal(t, "active", c.openstackJSON(t, "image", "show", "osc-guest")["status"])
	c.openstack(t, "flavor", "create", "osc.encrypted", "--vcpus", "1", "--ram", "192", "--disk", "1",
		"--property", "hw:ephemeral_encryption=true", "--property", "hw:tpm_version=2.0", "--property", "hw:tpm_model=tpm-crb")
	created := c.openstackJSON(t, "server", "create", "osc", "--flavor", "osc.encrypted", "--image", "osc-guest", "--nic", "none", "--wait")
	require.Equal(t, "ACTIVE", created["status"])
	id := created["id"].(string)
	shown := c.openstackJSON(t, "server", "show", "osc")
	require.Equal(t, id, shown["id"])
	require.Contains(t, c.openstack(t, "server", "list", "--long"), "osc.encrypted")
	c.console(t, id, "TG ready", 1)
	require.Contains(t, c.openstack(t, "console", "log", "show", "osc"), "TG tpm version=2.0")
	c.openstack(t, "server", "stop", "osc")
	c.becomes(t, id, "SHUTOFF")
	c.openstack(t, "server", "start", "osc")
	c.becomes(t, id, "ACTIVE")
	events := c.openstack(t, "server", "event", "list", "osc")
	for _, action := range []string{"create", "stop", "start"} {
		require.Contains(t, events, action)
	}
	c.openstack(t, "server", "delete", "--wait", "osc")
	require.NotContains(t, c.openstack(t, "server", "list"), id)
	c.openstack(t, "image", "delete", "osc-guest")
	c.openstack(t, "flavor", "delete", "osc.encrypted")
	c.nothingIsLeft(t)
}
