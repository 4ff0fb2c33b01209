package integration_test

import (
	"net/http"
	"os"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"strongroom/deploy/await"
	"strongroom/deploy/dev/stack"
)

// keepsKeys has a host keep these keys of guests: none, the vTPM's, or all. It stays so: each test that depends on it says so.
func (c *testCloud) keepsKeys(t *testing.T, h stack.Host, which string) {
	t.Helper()
	var settings map[string]any
	readYAML(t, h.ConfigFile(), &settings)
	of := settings["host"].(map[string]any)
	if of["keep_guest_keys"] == which {
		return
	}
	of["keep_guest_keys"] = which
	text, err := yaml.Marshal(settings)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(h.ConfigFile(), text, 0o600))
	c.restartHost(t, h)
}

// TPM-20: an administrator who may not read the keys of a server moves it while it runs, and back, also
// after a restart of the worker that keeps them, where hosts keep all keys: memory, disk and TPM go along, no key is touched in the
// key manager, and the host that it leaves keeps none. When it is off, no host does.
func TestLiveMigrateByAnAdministratorWithoutTheKeys(t *testing.T) {
	backends(t, openStack, local)
	c := twoHosts(t)
	a, b := c.Host(1), c.Host(2)
	c.keepsKeys(t, a, "all")
	c.keepsKeys(t, b, "all")
	id := c.on(t, a, func() string { return c.create(t, encryptedTPM) })
	c.counts(t, id, 1, 1, 1)
	keys := c.keysOf(t, id)
	require.Len(t, c.kept(t, a, id), 4, "three disks and a TPM")
	c.runsOnce(t, id)
	c.restartHost(t, a)
	for i, to := range []stack.Host{b, a} {
		c.movesRunningAs(t, "-admin", id, to)
		line := c.serial(t, id)
		require.Equal(t, i+2, line.counts(), "its TPM counts on while it runs")
		require.NoError(t, line.conn.Close())
		oneCopy(t, id)
		require.Len(t, c.kept(t, to, id), 4)
		require.Zero(t, c.remains(t, to, id).Secrets)
		require.Equal(t, keys, c.keysOf(t, id))
		require.Empty(t, c.audit(t).Findings)
	}
	c.shutOff(t, id)
	require.Empty(t, c.kept(t, a, id))
	c.startAgain(t, id) // by its owner
	c.counts(t, id, 1, 2, 4)
	c.delete(t, id)
	c.nothingIsLeft(t)
}

// EE-30: by default a host keeps the key of the vTPM alone. An administrator who may not read those of the disks gets a 403, with nothing moved, and the same
// of a dry run; a drain does not move such a server. One in its project moves it with his own access; a server whose disks are not encrypted, anybody who may
// move servers.
func TestEE30DisksMoveByTheAccessOfWhoAsks(t *testing.T) {
	backends(t, local, openStack)
	c := twoHosts(t)
	a, b := c.Host(1), c.Host(2)
	c.keepsKeys(t, a, "tpm")
	c.keepsKeys(t, b, "tpm")
	id := c.on(t, a, func() string { return c.createIdle(t, encryptedTIS) })
	c.runsOnce(t, id)
	require.Len(t, c.kept(t, a, id), 1, "its vTPM's")
	before, keys := c.events(t, id), c.keysOf(t, id)
	err := c.liveMigrateAs(t, "-admin", id, &b)
	require.True(t, gophercloud.ResponseCodeIs(err, http.StatusForbidden), "%v", err)
	require.ErrorContains(t, err, "of its disks, and its host does not keep it")
	foretold := c.dryRun(t, "-admin", id, "live-migrate")
	require.False(t, foretold.Succeeds)
	require.Contains(t, foretold.Refusals[0].Message, "of its disks, and its host does not keep it")
	if c.real != nil { // nobody's token goes with a drain: keys are read by a role of strongroom's own, which the local key manager always gives it
		c.drainForetold(t, a, b, map[string]string{id: ""})
	}
	require.Equal(t, before, c.events(t, id), "no operation was begun")
	require.Equal(t, "ACTIVE", c.settled(t, id).Status)
	c.requireOn(t, a, id)
	for i, to := range []stack.Host{b, a} {
		require.NoError(t, c.liveMigrate(t, id, &to))
		c.becomes(t, id, "ACTIVE")
		c.requireOn(t, to, id)
		c.hasNothing(t, []stack.Host{a, b}[i], id)
		oneCopy(t, id)
		require.Len(t, c.kept(t, to, id), 1)
		require.Equal(t, keys, c.keysOf(t, id))
	}
	if c.real != nil {
		ended, err := c.drain(t, a, "--wait", "--timeout", settleTimeout.String())
		require.Error(t, err)
		require.Equal(t, map[string]string{id: "failed"}, ended.states())
		require.Contains(t, ended.Servers[0].Reason, "of its disks, and its host does not keep it")
		out, err := c.strongroom("--config", c.ConfigFile(), "host", "undrain", hostName(t, a))
		require.NoError(t, err, out)
		c.becomes(t, id, "ACTIVE")
		c.requireOn(t, a, id)
		oneCopy(t, id)
	}
	c.delete(t, id)

	open := c.on(t, a, func() string { return c.createIdle(t, tpmAlone) })
	c.runsOnce(t, open)
	require.NoError(t, c.liveMigrateAs(t, "-admin", open, &b))
	c.becomes(t, open, "ACTIVE")
	c.requireOn(t, b, open)
	_, err = c.drain(t, b, "--wait", "--timeout", settleTimeout.String())
	require.NoError(t, err)
	c.requireOn(t, a, open)
	out, err := c.strongroom("--config", c.ConfigFile(), "host", "undrain", hostName(t, b))
	require.NoError(t, err, out)
	c.delete(t, open)

	// What it kept by an earlier setting goes when its worker starts.
	c.keepsKeys(t, a, "all")
	id = c.on(t, a, func() string { return c.createIdle(t, encryptedTIS) })
	require.Len(t, c.kept(t, a, id), 2)
	c.keepsKeys(t, a, "tpm")
	require.Len(t, c.kept(t, a, id), 1)
	c.delete(t, id)
	c.nothingIsLeft(t)
}

// Where a host keeps no keys, the answer to an administrator who may not read them is a 403, and nothing
// moves; also once it keeps keys again, until the guest is started anew. Its owner, whose request can
// read them, and servers of the mode "host" need none that is kept.
func TestLiveMigrateWhereNoKeysAreKept(t *testing.T) {
	backends(t, local, openStack)
	c := twoHosts(t)
	a, b := c.Host(1), c.Host(2)
	c.keepsKeys(t, a, "all")
	id := c.on(t, a, func() string { return c.createIdle(t, encryptedTIS) })
	c.runsOnce(t, id)
	require.Len(t, c.kept(t, a, id), 2)
	before := c.events(t, id)
	refused := func() {
		t.Helper()
		err := c.liveMigrateAs(t, "-admin", id, &b)
		require.True(t, gophercloud.ResponseCodeIs(err, http.StatusForbidden), "%v", err)
		require.ErrorContains(t, err, "and its host does not keep it")
		require.Equal(t, before, c.events(t, id), "no operation was begun")
		c.requireOn(t, a, id)
	}
	c.keepsKeys(t, a, "none")
	require.Empty(t, c.kept(t, a, id), "they are gone as soon as that is off")
	refused()
	open := c.on(t, a, func() string { return c.createIdle(t, delegated) })
	require.Empty(t, c.kept(t, a, open))
	require.NoError(t, c.liveMigrateAs(t, "-admin", open, &b))
	c.becomes(t, open, "ACTIVE")
	c.requireOn(t, b, open)
	c.delete(t, open)

	c.keepsKeys(t, a, "all")
	refused()
	require.NoError(t, servers.Reboot(t.Context(), c.compute(t, "-demo"), id, servers.RebootOpts{Type: servers.HardReboot}).ExtractErr())
	c.becomes(t, id, "ACTIVE")
	require.NoError(t, c.liveMigrateAs(t, "-admin", id, &b))
	c.becomes(t, id, "ACTIVE")
	c.requireOn(t, b, id)
	c.hasNothing(t, a, id)
	c.delete(t, id)
	c.nothingIsLeft(t)
}

// TPM-20: a worker that dies while keys are handed on, on either side, leaves one copy of the guest, where the
// record says, with its keys kept there and nowhere else.
func TestLiveMigrateKilledWhileKeysAreHandedOn(t *testing.T) {
	backends(t, local, openStack)
	c := twoHosts(t)
	a, b := c.Host(1), c.Host(2)
	c.keepsKeys(t, a, "all")
	c.keepsKeys(t, b, "all")
	id := c.on(t, a, func() string { return c.createIdle(t, encryptedTIS) })
	c.runsOnce(t, id)
	for _, k := range []struct {
		atSource bool
		point    string
	}{
		{true, "domain.Keeps@after"}, // it is not there yet when it is asked for the keys
		{false, "disk.Create@after"},
		{false, "domain.Expect@after"},
	} {
		from, to := c.hostOf(t, id), a
		if from == a {
			to = b
		}
		at := to
		if k.atSource {
			at = from
		}
		c.armOn(t, at, k.point)
		require.NoError(t, c.liveMigrateAs(t, "-admin", id, &to), k.point)
		c.becomes(t, id, "ACTIVE")
		c.requireOn(t, to, id)
		c.hasNothingSoon(t, from, id)
		oneCopy(t, id, k.point)
		require.Len(t, c.kept(t, to, id), 2, k.point)
		require.Empty(t, c.audit(t).Findings, k.point)
	}
	c.delete(t, id)
	c.nothingIsLeft(t)
}

// A guest that ends by itself, or goes off with its host, leaves no key.
func TestNoKeyIsKeptOfAGuestThatEnded(t *testing.T) {
	backends(t, local, openStack)
	c := twoHosts(t)
	h := c.Host(2)
	c.keepsKeys(t, h, "all")
	id := c.on(t, h, func() string { return c.createIdle(t, encryptedTIS) })
	require.NotEmpty(t, c.kept(t, h, id))
	c.powerOff(t, h)
	require.NotEmpty(t, c.kept(t, h, id), "this kernel was not restarted")
	c.powerOn(t, h)
	await.For(t, "the host keeps no key of server "+id, func() bool { return len(c.kept(t, h, id)) == 0 }, c.hostProgress(h), c.progress(id))
	c.becomes(t, id, "SHUTOFF")
	c.delete(t, id)
	c.nothingIsLeft(t)
}
