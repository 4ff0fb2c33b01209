package integration_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// foretold is what strongroom server … --dry-run prints.
type foretold struct {
	Succeeds bool `json:"succeeds"`
	Refusals []struct {
		Message string `json:"message"`
	} `json:"refusals"`
	Host  *struct{ Name string } `json:"host"`
	Bytes int64                  `json:"bytes"`
	Lost  []struct {
		What string `json:"what"`
	} `json:"lost"`
	Keys []struct {
		Readable bool `json:"readable"`
	} `json:"keys"`
}

// dryRun asks what a move of a server would do.
func (c *testCloud) dryRun(t *testing.T, user, id string, move ...string) (out foretold) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), c.binary, append(append([]string{"server"}, move...), id, "--dry-run", "-o", "json")...)
	cmd.Env = append(os.Environ(), "OS_CLIENT_CONFIG_FILE="+c.CloudsFile(), "OS_CLOUD="+c.entry(user))
	cmd.Stderr = t.Output()
	text, err := cmd.Output()
	require.NoError(t, json.Unmarshal(text, &out), "%s", text)
	require.Equal(t, out.Succeeds, err == nil, "exit code 1: it would not succeed")
	return out
}

// A dry run of a move says what the move then does, and what keeps it from it; it leaves nothing.
func TestDryRun(t *testing.T) {
	backends(t, local, openStack)
	c := twoHosts(t)
	from, to := c.Host(1), c.Host(2)
	id := c.on(t, from, func() string { return c.createIdle(t, encryptedTIS) })
	oneCopyAtMost(t, id)
	before, keys := c.events(t, id), c.keysOf(t, id)

	own := c.dryRun(t, "-demo", id, "shelve")
	require.True(t, own.Succeeds, "%v", own)
	require.Len(t, own.Keys, 1, "the vTPM's state stays encrypted")
	require.Nil(t, own.Host)
	foreign := c.dryRun(t, "-admin", id, "migrate")
	require.False(t, foreign.Succeeds)
	require.Len(t, foreign.Keys, 2)
	require.False(t, foreign.Keys[0].Readable)
	require.Contains(t, foreign.Refusals[0].Message, "cannot be read by whoever asks")
	live := c.dryRun(t, "", id, "live-migrate")
	require.True(t, live.Succeeds, "%v", live)
	require.Equal(t, hostName(t, to), live.Host.Name)
	require.Len(t, live.Keys, 2)
	require.Contains(t, c.dryRun(t, "", id, "evacuate").Refusals[0].Message, "is still in use")
	require.Contains(t, c.dryRun(t, "", id, "shelve-offload").Refusals[0].Message, "while it is in vm_state active")
	c.updateService(t, to, map[string]any{"status": "disabled"})
	require.False(t, c.dryRun(t, "-admin", id, "migrate").Succeeds)
	c.updateService(t, to, map[string]any{"status": "enabled"})
	require.Equal(t, before, c.events(t, id), "no operation was begun")
	require.Equal(t, keys, c.keysOf(t, id))
	require.Equal(t, "ACTIVE", c.settled(t, id).Status)
	c.requireOn(t, from, id)
	require.Empty(t, c.audit(t).Findings)

	c.shutOff(t, id)
	off := c.dryRun(t, "-admin", id, "migrate")
	require.True(t, off.Succeeds, "%v", off)
	require.Empty(t, off.Keys)
	require.Equal(t, hostName(t, to), off.Host.Name)
	require.Positive(t, off.Bytes)
	c.migrate(t, id)
	c.requireOn(t, to, id)
	require.False(t, c.dryRun(t, "-admin", id, "migrate").Succeeds, "it is not decided")
	for _, decision := range []string{"confirm-resize", "revert-resize"} {
		own := c.dryRun(t, "-demo", id, decision)
		require.True(t, own.Succeeds, "%v", own)
		require.Empty(t, own.Keys)
		require.Nil(t, own.Host)
		require.NotEmpty(t, own.Lost)
	}
	require.Equal(t, hostName(t, from), c.dryRun(t, "-admin", id, "revert-resize").Host.Name)
	c.requireOn(t, to, id)
	c.delete(t, id)
	c.nothingIsLeft(t)
}
