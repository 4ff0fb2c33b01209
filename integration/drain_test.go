package integration_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/require"

	"strongroom/deploy/dev/stack"
)

// drained is what strongroom host drain prints.
type drained struct {
	Operation string `json:"operation_id"`
	State     string `json:"state"`
	ToGo      int    `json:"to_go"`
	Servers   []struct {
		ID, State, Reason string
	} `json:"servers"`
}

// drain runs strongroom host drain.
func (c *testCloud) drain(t *testing.T, h stack.Host, flags ...string) (out drained, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), c.binary, append([]string{"--config", c.ConfigFile(), "host", "drain", hostName(t, h), "-o", "json"}, flags...)...)
	cmd.Stderr = t.Output()
	text, err := cmd.Output()
	if len(text) > 0 {
		require.NoError(t, json.Unmarshal(text, &out), "%s", text)
	}
	return out, err
}

// drainForetold requires what strongroom host drain --dry-run says: how each server would go, "" for one
// that would stay. It says the same as a table.
func (c *testCloud) drainForetold(t *testing.T, from, to stack.Host, how map[string]string, flags ...string) {
	t.Helper()
	say := func(flags ...string) ([]byte, error) {
		cmd := exec.CommandContext(t.Context(), c.binary, append([]string{"host", "drain", hostName(t, from), "--dry-run"}, flags...)...)
		cmd.Env = append(os.Environ(), "OS_CLIENT_CONFIG_FILE="+c.CloudsFile(), "OS_CLOUD="+c.entry("-admin"))
		cmd.Stderr = t.Output()
		return cmd.Output()
	}
	text, err := say(append(flags, "-o", "json")...)
	var out struct {
		Succeeds bool
		Servers  []struct {
			foretold

			ID, Action string
		}
	}
	require.NoError(t, json.Unmarshal(text, &out), "%s", text)
	require.Equal(t, out.Succeeds, err == nil, "exit code 1: some would stay")
	require.Len(t, out.Servers, len(how))
	all := true
	for _, s := range out.Servers {
		require.Equal(t, how[s.ID], s.Action, "%s", text)
		goes := s.Action != ""
		all = all && goes
		require.Equal(t, goes, s.Succeeds, "%s", text)
		require.Equal(t, goes, len(s.Refusals) == 0)
		if goes {
			require.Equal(t, hostName(t, to), s.Host.Name)
			require.Positive(t, s.Bytes)
		}
	}
	require.Equal(t, all, out.Succeeds)
	table, _ := say(flags...)
	t.Logf("%s", table)
	require.Contains(t, string(table), "drain of host "+hostName(t, from))
}

func (d drained) states() map[string]string {
	out := map[string]string{}
	for _, s := range d.Servers {
		out[s.ID] = s.State
	}
	return out
}

// A host is drained: servers that are off leave it, and those that run, whoever may read their keys, with
// no restart unless it is asked for: then those stay whose keys only their owner can read. The control worker dies in the midst
// of it. Nothing of those that left is on the host, and it takes no new server until it is enabled.
func TestDrain(t *testing.T) {
	backends(t, openStack, local)
	c := twoHosts(t)
	from, to := c.Host(2), c.Host(1)
	c.keepsKeys(t, from, "all")
	off := c.on(t, from, func() string { return c.createIdle(t, encryptedTIS) })
	runs := c.on(t, from, func() string { return c.createIdle(t, delegated) })
	owners := c.on(t, from, func() string { return c.createIdle(t, encryptedTIS) })
	oneCopyAtMost(t, off)
	c.runsOnce(t, runs) // the QEMU that it goes to waits for it
	c.runsOnce(t, owners)
	require.NoError(t, servers.Stop(t.Context(), c.compute(t, "-demo"), off).ExtractErr())
	c.becomes(t, off, "SHUTOFF")

	events := c.events(t, off)
	c.drainForetold(t, from, to, map[string]string{off: "migrate", runs: "live-migration", owners: "live-migration"})
	c.drainForetold(t, from, to, map[string]string{off: "migrate", runs: "migrate", owners: ""}, "--cold")
	require.Equal(t, events, c.events(t, off), "no operation was begun")
	require.Equal(t, "enabled", c.hostService(t, from).Status)

	_, err := c.drain(t, from, "--concurrency", "0")
	require.Error(t, err)
	receives := c.holdOn(t, to, "disk.Receive@before")
	began, err := c.drain(t, from, "--concurrency", "1")
	require.NoError(t, err)
	receives.waits(t, c.progress(off), c.progress(runs), c.progress(owners))
	require.Contains(t, c.hostService(t, from).DisabledReason, "draining ("+began.Operation)
	refused := 0
	for _, id := range []string{off, runs, owners} { // S5: the owner of the one that moves does not keep the host from being emptied
		out, err := c.strongroom("operation", "cancel", id)
		require.Error(t, err, out)
		if strings.Contains(out, "administrators alone cancel it") {
			refused++
		}
	}
	require.Equal(t, 1, refused)
	again, err := c.drain(t, from, "--cold")
	require.NoError(t, err)
	require.Equal(t, began.Operation, again.Operation, "one at a time")
	out, err := c.strongroom("--config", c.ConfigFile(), "host", "undrain", hostName(t, from))
	require.Error(t, err)
	require.Contains(t, out, "cancel that first")
	c.kill(t, "control")
	receives.release()

	ended, err := c.drain(t, from, "--wait", "--status", "--timeout", settleTimeout.String())
	require.NoError(t, err)
	require.Equal(t, "succeeded", ended.State)
	require.Equal(t, map[string]string{off: "moved", runs: "moved", owners: "moved"}, ended.states())
	c.becomes(t, off, "SHUTOFF")
	c.requireOn(t, to, off)
	c.hasNothing(t, from, off)
	require.Contains(t, c.hostService(t, from).DisabledReason, "drained ("+began.Operation)
	require.Empty(t, c.audit(t).Findings)
	for _, id := range []string{runs, owners} {
		c.becomes(t, id, "ACTIVE")
		c.requireOn(t, to, id)
		oneCopy(t, id)
		c.hasNothing(t, from, id)
	}

	out, err = c.strongroom("--config", c.ConfigFile(), "host", "undrain", hostName(t, from))
	require.NoError(t, err, out)
	restarted := c.on(t, from, func() string { return c.createIdle(t, delegated) })
	unreadable := c.on(t, from, func() string { return c.createIdle(t, encryptedTIS) })
	oneCopyAtMost(t, restarted)
	oneCopyAtMost(t, unreadable)
	ended, err = c.drain(t, from, "--cold", "--wait", "--timeout", settleTimeout.String())
	require.Error(t, err)
	require.Equal(t, map[string]string{restarted: "moved", unreadable: "left"}, ended.states())
	for _, s := range ended.Servers {
		if s.ID == unreadable {
			require.Contains(t, s.Reason, "can read its keys")
		}
	}
	c.becomes(t, restarted, "ACTIVE")
	c.requireOn(t, to, restarted)
	oneCopy(t, restarted)
	c.hasNothing(t, from, restarted)
	c.becomes(t, unreadable, "ACTIVE")
	c.requireOn(t, from, unreadable)
	oneCopy(t, unreadable, "it was not touched")

	c.delete(t, unreadable)
	ended, err = c.drain(t, from, "--wait", "--timeout", settleTimeout.String())
	require.NoError(t, err)
	require.Equal(t, "succeeded", ended.State)
	elsewhere := c.createIdle(t, encryptedTIS)
	c.becomes(t, elsewhere, "ACTIVE")
	c.requireOn(t, to, elsewhere)
	out, err = c.strongroom("--config", c.ConfigFile(), "host", "undrain", hostName(t, from))
	require.NoError(t, err, out)
	require.Equal(t, "enabled", c.hostService(t, from).Status)
	for _, id := range []string{off, runs, owners, restarted, elsewhere} {
		c.delete(t, id)
	}
	c.nothingIsLeft(t)
}

// A drain that is cancelled begins nothing more, and ends what it began.
func TestDrainIsCancelled(t *testing.T) {
	backends(t, local, openStack)
	c := twoHosts(t)
	from, to := c.Host(2), c.Host(1)
	var ids []string
	for range 2 {
		id := c.on(t, from, func() string { return c.createIdle(t, encryptedTIS) })
		require.NoError(t, servers.Stop(t.Context(), c.compute(t, "-demo"), id).ExtractErr())
		c.becomes(t, id, "SHUTOFF")
		ids = append(ids, id)
	}
	receives := c.holdOn(t, to, "disk.Receive@before")
	_, err := c.drain(t, from, "--concurrency", "1")
	require.NoError(t, err)
	receives.waits(t, c.progress(ids[0]), c.progress(ids[1]))
	_, err = c.drain(t, from, "--cancel")
	require.NoError(t, err)
	receives.release()
	ended, err := c.drain(t, from, "--status", "--wait", "--timeout", settleTimeout.String())
	require.Error(t, err)
	require.Equal(t, "cancelled", ended.State)
	require.Equal(t, map[string]string{ids[0]: "moved"}, ended.states())
	c.requireOn(t, to, ids[0])
	c.requireOn(t, from, ids[1])
	_, err = c.drain(t, from, "--cancel")
	require.Error(t, err, "none is under way")
	for _, id := range ids {
		c.becomes(t, id, "SHUTOFF")
		c.delete(t, id)
	}
	c.nothingIsLeft(t)
}
