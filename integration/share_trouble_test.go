package integration_test

import (
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/deploy/await"
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

// monitorAway is for how long Ceph's monitor answers nobody. Who asks it is the kernel, or ceph-fuse, and says nothing of it.
const monitorAway = 5 * time.Second

// Manila and Ceph's monitor answer nobody for a while, a worker dies with mounts in use, or Manila is slow, fails, refuses or gives no answer to what it
// does: what was begun ends, nothing is left, and nothing is unmounted under a guest that runs.
func TestSharesWhileServicesAreAway(t *testing.T) {
	backends(t, openStack)
	c := shareCloud(t)
	s := c.share(t)
	id := c.create(t, encrypted)
	c.becomes(t, id, "ACTIVE")
	c.turnOff(t, id)

	// An attach: the request was taken when Manila stops.
	granting := c.hold(t, "share.Allow@before")
	require.NoError(t, c.attach(t, id, s, "data"))
	granting.waits(t, c.progress(id))
	back, since := c.silence(t, manilaService), c.proxies[manilaService].asked.Load()
	granting.release()
	c.proxies[manilaService].isAsked(t, since, c.progress(id))
	back()
	c.hasShare(t, id, s, "inactive")
	require.Len(t, c.accessRules(t, s), 2)

	// A start: the monitor is away when the share is mounted.
	back = c.silence(t, "ceph-mon")
	require.NoError(t, servers.Start(t.Context(), c.compute(t, "-demo"), id).ExtractErr())
	await.Quiet(t, monitorAway, "Ceph's monitor is away")
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

	c.whileTheMonitorIsAway(t, s, id)
	c.whileManilaIsInTrouble(t, s, c.offWithShare(t, s))
}

// whileTheMonitorIsAway has Ceph's monitor answer nobody while a share is unmounted and its rule taken away: by a stop, a detach, and the
// delete of a server that runs.
func (c *testCloud) whileTheMonitorIsAway(t *testing.T, s testShare, id string) {
	t.Helper()
	during := func(ask func() error) {
		t.Helper()
		back := c.silence(t, "ceph-mon")
		require.NoError(t, ask())
		await.Quiet(t, monitorAway, "Ceph's monitor is away")
		back()
	}
	during(func() error { return servers.Stop(t.Context(), c.compute(t, "-demo"), id).ExtractErr() })
	c.becomes(t, id, "SHUTOFF")
	c.isUnmounted(t)
	during(func() error { return c.detach(t, id, s) })
	c.hasNoShare(t, id, s)
	c.nothingIsLeftInTime(t)
	require.Len(t, c.accessRules(t, s), 1, "the test's own")

	require.NoError(t, c.attach(t, id, s, "data"))
	c.hasShare(t, id, s, "inactive")
	c.turnOn(t, id)
	require.Equal(t, 1, c.shareMounts(t))
	during(func() error { return servers.Delete(t.Context(), c.compute(t, "-demo"), id).ExtractErr() })
	c.gone(t, id)
	c.isUnmounted(t)
	c.nothingIsLeftInTime(t)
	require.Len(t, c.accessRules(t, s), 1)
}

// nothingIsLeftForItsUser gives the reaper time to remove what waited. What Manila refused to remove is tried again: when the token of
// who asked for it is over by then, that of the project's next request is taken, which comes as soon as something waits for it.
func (c *testCloud) nothingIsLeftForItsUser(t *testing.T) {
	t.Helper()
	var left []compute.Finding
	await.For(t, "what waits goes", func() bool {
		left = c.audit(t).Findings
		if slices.ContainsFunc(left, func(f compute.Finding) bool { return f.What == compute.Waiting }) {
			_, err := servers.List(c.asking(t, "-demo"), nil).AllPages(t.Context())
			require.NoError(t, err)
		}
		return len(left) == 0
	}, findings(&left))
	c.nothingIsLeft(t)
}

// whileManilaIsInTrouble has each operation of a server that is off and has a share meet something that is wrong with Manila. Each
// ends as it should, or as Manila's refusal has it; what it leaves for later goes soon, and then no rule is left but those that are
// needed, and no mount. In a deep run each operation meets each trouble.
func (c *testCloud) whileManilaIsInTrouble(t *testing.T, s testShare, id string) {
	t.Helper()
	troubles := []string{serviceStops, serviceIsSlow, serviceFails, serviceRefuses, serviceIsMute}
	rounds, begin := len(troubles), 0
	if sampled() {
		rounds, begin = 1, diceOf(manilaService).IntN(len(troubles))
	}
	for round := range rounds {
		if round > 0 {
			id = c.offWithShare(t, s)
		}
		for i, operation := range []string{"detach", "attach", "start", "delete"} {
			trouble := troubles[(begin+round+i)%len(troubles)]
			if !t.Run(operation+"/"+trouble, func(t *testing.T) { c.meetsManilas(t, s, id, operation, trouble) }) {
				return
			}
		}
	}
}

// meetsManilas has an operation meet a trouble of Manila's, and leaves the server as the next one finds it (see whileManilaIsInTrouble).
func (c *testCloud) meetsManilas(t *testing.T, s testShare, id, operation, trouble string) {
	t.Helper()
	if operation == "start" { // it makes anew the rule that was taken away
		c.takeRuleAway(t, s, c.accessRules(t, s)[1].ID)
		c.hasOneRule(t, s)
	}
	manila, rules := c.proxies[manilaService], 2 // the test's own, and the host's
	manila.has(trouble)
	defer manila.has("")
	isOver := func() {
		t.Helper()
		require.NotEmpty(t, manila.has(""), "nothing met the trouble")
	}
	switch operation {
	case "detach":
		rules = 1
		require.NoError(t, c.detach(t, id, s))
		c.hasNoShare(t, id, s)
		isOver()
	case "attach":
		require.NoError(t, c.attach(t, id, s, "data"))
		if trouble == serviceRefuses {
			c.hasShare(t, id, s, "error")
			isOver()
			c.nothingIsLeftForItsUser(t)
			require.Len(t, c.accessRules(t, s), 1)
			require.NoError(t, c.detach(t, id, s), "from error")
			c.hasNoShare(t, id, s)
			require.NoError(t, c.attach(t, id, s, "data"))
			c.hasShare(t, id, s, "inactive")
			break
		}
		c.hasShare(t, id, s, "inactive")
		isOver()
	case "start":
		require.NoError(t, servers.Start(t.Context(), c.compute(t, "-demo"), id).ExtractErr())
		if trouble == serviceRefuses {
			require.Contains(t, c.becomes(t, id, "ERROR").Fault.Message, s.id)
			c.hasShare(t, id, s, "error")
			require.Zero(t, c.shareMounts(t))
			isOver()
			require.NoError(t, servers.Reboot(t.Context(), c.compute(t, "-demo"), id, servers.RebootOpts{Type: servers.HardReboot}).ExtractErr())
		}
		c.becomes(t, id, "ACTIVE")
		c.hasShare(t, id, s, "active")
		require.Equal(t, 1, c.shareMounts(t))
		if trouble != serviceRefuses {
			isOver()
		}
	case "delete":
		rules = 1
		c.delete(t, id)
		c.isUnmounted(t)
		isOver()
	}
	c.nothingIsLeftForItsUser(t)
	require.Len(t, c.accessRules(t, s), rules)
}
