package integration_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/stretchr/testify/require"
)

// strongroom runs a client command as the demo project's user.
func (c *testCloud) strongroom(args ...string) (string, error) {
	out, err := c.program(args...).CombinedOutput()
	return string(out), err
}

// program is a run of the program as the demo project's user.
func (c *testCloud) program(args ...string) *exec.Cmd {
	cmd := exec.Command(c.binary, args...)
	cmd.Env = append(os.Environ(), "OS_CLIENT_CONFIG_FILE="+c.CloudsFile(), "OS_CLOUD="+c.entry("-demo"))
	return cmd
}

// The client commands, from create to delete, for people and for scripts.
func TestClientCommands(t *testing.T) {
	backends(t, local, openStack)
	c := sharedCloud(t)
	c.flavor(t, encryptedTPM)
	var progress bytes.Buffer
	create := c.program("server", "create", "cli", "--flavor", encryptedTPM.name, "--image", "tiny", "--wait", "-o", "json")
	create.Stderr = &progress
	shown, err := create.Output()
	require.NoError(t, err, progress.String())
	require.Contains(t, progress.String(), "cli: create")
	var server struct {
		ID     string `json:"id"`
		Status string `json:"status"`
		Disks  []struct {
			Encrypted bool              `json:"encrypted"`
			Format    string            `json:"encryption_format"`
			Options   map[string]string `json:"encryption_options"`
		} `json:"disks"`
	}
	require.NoError(t, json.Unmarshal(shown, &server), string(shown))
	require.Equal(t, "ACTIVE", server.Status)
	require.Len(t, server.Disks, 3)
	for _, d := range server.Disks {
		require.True(t, d.Encrypted)
		require.Equal(t, "luks", d.Format)
		require.Equal(t, "aes-256", d.Options["cipher-alg"], "EE-08")
	}
	c.console(t, server.ID, "TG ready", 1)
	whose, err := servers.Get(t.Context(), c.compute(t, "-demo"), server.ID).Extract()
	require.NoError(t, err)
	var image struct {
		ID string `json:"id"`
	}
	made, err := c.program("server", "image", "create", "cli", copiedImage, "--key", "new", "--wait", "-o", "json").Output()
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(made, &image), string(made))
	img, err := images.Get(t.Context(), c.imageService(t, "-demo"), image.ID).Extract()
	require.NoError(t, err)
	require.Equal(t, images.ImageStatusActive, img.Status)
	c.deleteImage(t, img) // with its key

	for _, step := range []struct {
		args []string
		says string
	}{
		{[]string{"server", "list"}, "cli"},
		{[]string{"server", "show", "cli"}, "encrypted luks aes-256 xts"},
		{[]string{"server", "console-log", "cli"}, "TG ready"},
		{[]string{"server", "pause", "cli", "--wait"}, "PAUSED"},
		{[]string{"server", "unpause", "cli", "--wait"}, "ACTIVE"},
		{[]string{"server", "stop", "cli", "--wait"}, "SHUTOFF"},
		{[]string{"server", "start", "cli", "--wait"}, "ACTIVE"},
		{[]string{"server", "rescue", "cli", "--image", "idle", "--wait"}, "RESCUE"},
		{[]string{"server", "unrescue", "cli", "--wait"}, "ACTIVE"},
		{[]string{"server", "rebuild", "cli", "--image", "idle", "--preserve-ephemeral", "--wait"}, "encrypted luks aes-256 xts"},
		{[]string{"server", "reboot", "cli", "--hard", "--wait"}, "ACTIVE"},
		{[]string{"operation", "list", "cli", "-c", "kind", "-c", "state", "-o", "value"}, "reboot succeeded\n"},
		{[]string{"operation", "show", "cli"}, "step"},
		{[]string{"operation", "watch", "cli"}, "succeeded"},
		{[]string{"host", "list", "--os-cloud", c.entry("-admin")}, "enabled"},
		{[]string{"server", "delete", "cli", "--wait"}, ""},
		{[]string{"--config", c.ConfigFile(), "audit", "--project", whose.TenantID}, "0 findings"},
		{[]string{"--config", c.ConfigFile(), "audit"}, "0 findings"},
	} {
		out, err := c.strongroom(step.args...)
		require.NoError(t, err, "%v: %s", step.args, out)
		require.Contains(t, out, step.says)
	}
	out, err := c.strongroom("operation", "cancel", server.ID)
	require.Error(t, err)
	require.Contains(t, out, "is a delete, which cannot be cancelled. (HTTP 409)")
	out, err = c.strongroom("server", "show", "cli")
	require.Error(t, err)
	require.Equal(t, "strongroom: there is no server \"cli\"\n", out, "one line, exit code 1")
	out, err = c.strongroom("server", "create", "cli", "--flavor", "none-such", "--image", "tiny")
	require.Error(t, err)
	require.Equal(t, "strongroom: there is no flavor \"none-such\"\n", out)
}
