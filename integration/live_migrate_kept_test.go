package integration_test

import (
	"os"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/require"

	"strongroom/deploy/await"
	"strongroom/deploy/dev/stack"
)

// keepsKeys has a host keep the keys of guests, or not.
func (c *testCloud) keepsKeys(t *testing.T, h stack.Host, yes bool) {
	t.Helper()
	text, err := os.ReadFile(h.ConfigFile())
	require.NoError(t, err)
	const off = "host:\n    keep_guest_keys: false\n"
	plain := strings.Replace(string(text), off, "host:\n", 1)
	if !yes {
		plain = strings.Replace(plain, "host:\n", off, 1)
	}
	require.NoError(t, os.WriteFile(h.ConfigFile(), []byte(plain), 0o600))
	c.restartHost(t, h)
}

// TPM-20: an administrator who may not read the keys of a server moves it while it runs, and back, also
// after a restart of the worker that keeps them: memory, disk and TPM go along, no key is touched in the
// key manager, and the host that it leaves keeps none. When it is off, no host does.
func TestLiveMigrateByAnAdministratorWithoutTheKeys(t *testing.T) {
	backends(t, openStack, local)
	c := twoHosts(t)
	a, b := c.Host(1), c.Host(2)
	id := c.on(t, a, func() string { return c.create(t, encryptedTPM) })
	c.counts(t, id, 1, 1, 1)
	keys := c.keysOf(t, id)
	require.Len(t, c.kept(t, a, id), 4, "three disks and a TPM")
	c.runsOnce(t, id)
	c.restartHost(t, a)
	for i, to := range []stack.Host{b, a} {
		c.movesRunning(t, id, to)
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

// Where a host keeps no keys, the answer to an administrator who may not read them is a 409, and nothing
// moves; also once it keeps keys again, until the guest is started anew. Its owner, whose request can
// read them, and servers of the mode "host" need none that is kept.
func TestLiveMigrateWhereNoKeysAreKept(t *testing.T) {
	backends(t, local, openStack)
	c := twoHosts(t)
	a, b := c.Host(1), c.Host(2)
	id := c.on(t, a, func() string { return c.createIdle(t, encryptedTIS) })
	c.runsOnce(t, id)
	require.NotEmpty(t, c.kept(t, a, id))
	before := c.events(t, id)
	refused := func() {
		t.Helper()
		require.ErrorContains(t, c.liveMigrate(t, id, &b), "and its host does not keep it")
		require.Equal(t, before, c.events(t, id), "no operation was begun")
		c.requireOn(t, a, id)
	}
	c.keepsKeys(t, a, false)
	require.Empty(t, c.kept(t, a, id), "they are gone as soon as that is off")
	refused()
	open := c.on(t, a, func() string { return c.createIdle(t, delegated) })
	require.Empty(t, c.kept(t, a, open))
	require.NoError(t, c.liveMigrate(t, open, &b))
	c.becomes(t, open, "ACTIVE")
	c.requireOn(t, b, open)
	c.delete(t, open)

	c.keepsKeys(t, a, true)
	refused()
	require.NoError(t, servers.Reboot(t.Context(), c.compute(t, "-demo"), id, servers.RebootOpts{Type: servers.HardReboot}).ExtractErr())
	c.becomes(t, id, "ACTIVE")
	require.NoError(t, c.liveMigrate(t, id, &b))
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
		require.NoError(t, c.liveMigrate(t, id, &to), k.point)
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
