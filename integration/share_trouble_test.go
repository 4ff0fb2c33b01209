package integration_test

import (
	"net/http"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/require"

	"strongroom/deploy/dev/process"
)

// silence stops a service of the real cloud, which answers nobody until it is back.
func (c *testCloud) silence(t *testing.T, service string) (back func()) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(c.dir, "c", "run", service+".pid"))
	require.NoError(t, err)
	require.NotEmpty(t, files, service)
	var pids []int
	for _, file := range files {
		pid, running := process.Named(file)
		require.True(t, running, file)
		require.NoError(t, syscall.Kill(-pid, syscall.SIGSTOP), file) // and its workers
		pids = append(pids, pid)
	}
	back = func() {
		for _, pid := range pids {
			_ = syscall.Kill(-pid, syscall.SIGCONT)
		}
	}
	t.Cleanup(back)
	return back
}

// Manila and Ceph's monitor answer nobody for a while, or a worker dies with mounts in use: what was begun ends once they are back, nothing is left,
// and nothing is unmounted under a guest that runs.
func TestSharesWhileServicesAreAway(t *testing.T) {
	backends(t, openStack)
	c := shareCloud(t)
	s := c.share(t)
	id := c.create(t, encrypted)
	c.becomes(t, id, "ACTIVE")
	c.turnOff(t, id)
	const away = 5 * time.Second

	// An attach: the request was taken when Manila stops.
	granting := c.hold(t, "share.Allow@before")
	require.NoError(t, c.attach(t, id, s, "data"))
	require.Eventually(t, granting.reached, settleTimeout, 50*time.Millisecond)
	back := c.silence(t, "manila")
	granting.release()
	time.Sleep(away)
	back()
	c.hasShare(t, id, s, "inactive")
	require.Len(t, c.accessRules(t, s), 2)

	// A start: the monitor is away when the share is mounted.
	back = c.silence(t, "ceph-mon")
	require.NoError(t, servers.Start(t.Context(), c.compute(t, "-demo"), id).ExtractErr())
	time.Sleep(away)
	back()
	if got := c.settled(t, id); got.Status == "ERROR" { // it took too long
		c.hasShare(t, id, s, "error")
		require.NoError(t, servers.Reboot(t.Context(), c.compute(t, "-demo"), id, servers.RebootOpts{Type: servers.HardReboot}).ExtractErr())
	}
	c.becomes(t, id, "ACTIVE")
	c.hasShare(t, id, s, "active")
	line := c.serial(t, id)
	line.expect("TG tick=")
	require.Contains(t, line.ask("share data", "TG share "), "err=<nil>")

	// The host's worker dies, and another one finds the mount in use.
	c.restartHost(t, c.Host(1))
	require.Equal(t, 1, c.shareMounts(t))
	require.Contains(t, line.ask("write /share/note after the worker", "TG write "), "err=<nil>")
	require.NoError(t, line.conn.Close())
	require.Empty(t, c.audit(t).Findings)

	// A detach, and a delete of a server that runs: Manila is away when its rule goes.
	c.turnOff(t, id)
	removing := c.hold(t, "share.Remove.share_access@before")
	require.NoError(t, c.detach(t, id, s))
	require.Eventually(t, removing.reached, settleTimeout, 50*time.Millisecond)
	back = c.silence(t, "manila")
	removing.release()
	time.Sleep(away)
	back()
	c.settled(t, id)
	_, err := c.shares(t, "-demo", http.MethodGet, id, s.id, nil)
	require.True(t, gophercloud.ResponseCodeIs(err, http.StatusNotFound), "%v", err)
	require.Len(t, c.accessRules(t, s), 1, "the test's own")

	require.NoError(t, c.attach(t, id, s, "data"))
	c.hasShare(t, id, s, "inactive")
	c.turnOn(t, id)
	back = c.silence(t, "manila")
	require.NoError(t, servers.Delete(t.Context(), c.compute(t, "-demo"), id).ExtractErr())
	time.Sleep(away)
	back()
	c.gone(t, id)
	c.nothingIsLeftInTime(t)
	require.Zero(t, c.shareMounts(t))
	require.Len(t, c.accessRules(t, s), 1, "the test's own")
}
