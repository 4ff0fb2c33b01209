package integration_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// strongroom runs a client command as the demo project's user.
func (c *testCloud) strongroom(args ...string) (string, error) {
	cmd := exec.Command(c.binary, args...)
	cmd.Env = append(os.Environ(), "OS_CLIENT_CONFIG_FILE="+c.CloudsFile(), "OS_CLOUD="+c.entry("-demo"))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// The client commands, from create to delete, for people and for scripts.
func TestClientCommands(t *testing.T) {
	backends(t, local, openStack)
	c := sharedCloud(t)
	c.flavor(t, encryptedTPM)
	shown, err := c.strongroom("server", "create", "cli", "--flavor", encryptedTPM.name, "--image", "tiny", "--wait", "-o", "json")
	require.NoError(t, err, shown)
	var server struct {
		ID     string `json:"id"`
		Status string `json:"status"`
		Disks  []struct {
			Encrypted bool              `json:"encrypted"`
			Format    string            `json:"encryption_format"`
			Options   map[string]string `json:"encryption_options"`
		} `json:"disks"`
	}
	require.NoError(t, json.Unmarshal([]byte(shown), &server), shown)
	require.Equal(t, "ACTIVE", server.Status)
	require.Len(t, server.Disks, 3)
	for _, d := range server.Disks {
		require.True(t, d.Encrypted)
		require.Equal(t, "luks", d.Format)
		require.Equal(t, "aes-256", d.Options["cipher-alg"], "EE-08")
	}
	c.console(t, server.ID, "TG ready", 1)
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
		{[]string{"server", "delete", "cli", "--wait"}, ""},
		{[]string{"--config", c.ConfigFile(), "audit"}, "0 findings"},
	} {
		out, err := c.strongroom(step.args...)
		require.NoError(t, err, "%v: %s", step.args, out)
		require.Contains(t, out, step.says)
	}
	out, err := c.strongroom("server", "show", "cli")
	require.Error(t, err)
	require.Equal(t, "strongroom: there is no server \"cli\"\n", out, "one line, exit code 1")
	out, err = c.strongroom("server", "create", "cli", "--flavor", "none-such", "--image", "tiny")
	require.Error(t, err)
	require.Equal(t, "strongroom: there is no flavor \"none-such\"\n", out)
}
