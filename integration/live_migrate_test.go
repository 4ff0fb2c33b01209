package integration_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/require"

	"strongroom/deploy/await"
	"strongroom/deploy/dev/stack"
)

// liveMigrate asks for a live migration, to a host or, with nil, to any, as an administrator in the server's own project: he may read its keys.
func (c *testCloud) liveMigrate(t *testing.T, id string, to *stack.Host) error {
	t.Helper()
	return c.liveMigrateAs(t, "", id, to)
}

func (c *testCloud) liveMigrateAs(t *testing.T, user, id string, to *stack.Host) error {
	t.Helper()
	var host any
	if to != nil {
		host = hostName(t, *to)
	}
	client := *c.compute(t, user)
	client.Microversion = "2.80"
	resp, err := client.Post(t.Context(), client.ServiceURL("servers", id, "action"),
		map[string]any{"os-migrateLive": map[string]any{"host": host, "block_migration": "auto"}}, nil, &gophercloud.RequestOpts{OkCodes: []int{http.StatusAccepted}})
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// movesRunning has a guest that counts move to another host while it runs: it counts on there, and nothing of it is left behind.
func (c *testCloud) movesRunning(t *testing.T, id string, to stack.Host) {
	t.Helper()
	c.movesRunningAs(t, "", id, to)
}

func (c *testCloud) movesRunningAs(t *testing.T, user, id string, to stack.Host) {
	t.Helper()
	from := c.hostOf(t, id)
	c.ticksOn(t, id, ticks{})
	was := c.ticks(t, id)
	require.NoError(t, c.liveMigrateAs(t, user, id, &to))
	c.becomes(t, id, "ACTIVE")
	require.Empty(t, c.newestAction(t, id).Message)
	c.requireOn(t, to, id)
	c.hasNothing(t, from, id)
	c.ticksOn(t, id, was)
}

// ticks is how far a guest has counted in its memory: the newest tick that it has said on a host, 0 without one, and how often
// it has booted there.
type ticks struct {
	host   string
	newest int
	boots  int
}

func (c *testCloud) ticks(t *testing.T, id string) ticks {
	t.Helper()
	h := c.hostOf(t, id)
	log, _ := os.ReadFile(filepath.Join(h.Instances(), id, "console.log")) // not there at first
	at := ticks{host: hostName(t, h), boots: bytes.Count(log, []byte("TG init"))}
	if all := regexp.MustCompile(`TG tick=(\d+)\s`).FindAllSubmatch(log, -1); len(all) > 0 {
		var err error
		at.newest, err = strconv.Atoi(string(all[len(all)-1][1]))
		require.NoError(t, err)
	}
	return at
}

// ticksOn waits until the guest has ticked after a tick, on the host that it is on. It must not have booted since: what a guest said
// on another host stays there.
func (c *testCloud) ticksOn(t *testing.T, id string, after ticks) {
	t.Helper()
	var now ticks
	await.For(t, "the guest of server "+id+" ticks", func() bool { now = c.ticks(t, id); return now.newest > after.newest }, c.progress(id), c.guestProgress(id))
	switch after.host {
	case "":
	case now.host:
		require.Equal(t, after.boots, now.boots, "the guest has booted")
	default:
		require.Zero(t, now.boots, "the guest has booted")
	}
}

// TPM-20, EE-29: a guest moves while it runs, and comes back: its memory, its disks and its TPM go
// along, its keys are those that it had, and the host that it leaves has nothing of it.
func TestLiveMigrate(t *testing.T) {
	backends(t, openStack, local)
	c := twoHosts(t)
	a, b := c.Host(1), c.Host(2)
	id := c.on(t, a, func() string { return c.create(t, delegated) })
	c.counts(t, id, 1, 1, 1)
	keys := c.keysOf(t, id)
	c.runsOnce(t, id)
	for i, to := range []stack.Host{b, a} {
		line := c.serial(t, id)
		line.expect("TG tick=")
		require.Contains(t, line.ask("write note "+hostName(t, to), "TG write "), "err=<nil>")
		require.NoError(t, line.conn.Close())
		c.movesRunning(t, id, to)
		oneCopy(t, id)
		require.Zero(t, c.remains(t, to, id).Secrets)
		line = c.serial(t, id)
		require.Contains(t, line.ask("cat /root/note", "TG cat "), hostName(t, to))
		require.Equal(t, i+2, line.counts(), "its TPM counts on while it runs")
		require.NoError(t, line.conn.Close())
		require.Equal(t, keys, c.keysOf(t, id))
		require.Empty(t, c.audit(t).Findings)
		c.requireCertified(t, id, true)
	}
	c.shutOff(t, id)
	c.startAgain(t, id)
	c.counts(t, id, 1, 2, 4)
	c.delete(t, id)
	c.nothingIsLeft(t)
}

// migrationsOf gives the live migrations of a server that are under way.
func (c *testCloud) migrationsOf(t *testing.T, id string) (out []map[string]any) {
	t.Helper()
	client := *c.compute(t, "-admin")
	client.Microversion = "2.80"
	var body struct {
		Migrations []map[string]any `json:"migrations"`
	}
	resp, err := client.Get(t.Context(), client.ServiceURL("servers", id, "migrations"), &body, nil)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return body.Migrations
}

// abort asks for the end of a live migration, by its id.
func (c *testCloud) abort(t *testing.T, server string, migration any) error {
	t.Helper()
	client := *c.compute(t, "-admin")
	client.Microversion = "2.80"
	resp, err := client.Delete(t.Context(), client.ServiceURL("servers", server, "migrations", fmt.Sprint(migration)), nil)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// forceComplete asks that a live migration ends, though the guest stands still for a while.
func (c *testCloud) forceComplete(t *testing.T, server string, migration any) error {
	t.Helper()
	client := *c.compute(t, "-admin")
	client.Microversion = "2.80"
	resp, err := client.Post(t.Context(), client.ServiceURL("servers", server, "migrations", fmt.Sprint(migration), "action"),
		map[string]any{"force_complete": nil}, nil, &gophercloud.RequestOpts{OkCodes: []int{http.StatusAccepted}})
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// A live migration that is aborted leaves the guest where it is, one that is forced to complete does;
// what cannot be is refused before anything moves.
func TestLiveMigrateAbortAndRefusals(t *testing.T) {
	backends(t, local, openStack)
	c := twoHosts(t)
	a, b := c.Host(1), c.Host(2)
	id := c.on(t, a, func() string { return c.create(t, delegated) })
	c.runsOnce(t, id)
	c.ticksOn(t, id, ticks{})
	require.ErrorContains(t, c.liveMigrate(t, id, &a), "to current host")

	making := c.holdOn(t, b, "disk.Create@before")
	require.NoError(t, c.liveMigrate(t, id, &b))
	making.waits(t, c.progress(id))
	under := c.migrationsOf(t, id)
	require.Len(t, under, 1)
	require.Equal(t, "preparing", under[0]["status"])
	require.NoError(t, c.abort(t, id, under[0]["id"]))
	making.release()
	c.becomes(t, id, "ACTIVE")
	c.requireOn(t, a, id)
	require.NotContains(t, c.newestEvents(t, id), "live_migrate", "it ends before its guest is touched")
	require.True(t, gophercloud.ResponseCodeIs(c.abort(t, id, under[0]["id"]), http.StatusBadRequest), "it has ended")
	c.hasNothing(t, b, id)

	start := c.holdOn(t, a, "domain.Migrate@before")
	require.NoError(t, c.liveMigrate(t, id, &b))
	start.waits(t, c.progress(id))
	under = c.migrationsOf(t, id)
	require.Len(t, under, 1)
	require.Equal(t, []any{"running", hostName(t, a), hostName(t, b)}, []any{under[0]["status"], under[0]["source_compute"], under[0]["dest_compute"]})
	require.NoError(t, c.abort(t, id, under[0]["id"]))
	start.release()
	c.becomes(t, id, "ACTIVE")
	c.requireOn(t, a, id)
	require.Empty(t, c.migrationsOf(t, id))
	require.True(t, gophercloud.ResponseCodeIs(c.abort(t, id, under[0]["id"]), http.StatusBadRequest), "it has ended")
	c.hasNothing(t, b, id)
	c.ticksOn(t, id, c.ticks(t, id))
	require.Empty(t, c.audit(t).Findings)

	start = c.holdOn(t, a, "domain.Migrate@before")
	require.NoError(t, c.liveMigrate(t, id, &b))
	start.waits(t, c.progress(id))
	under = c.migrationsOf(t, id)
	require.Len(t, under, 1)
	require.NoError(t, c.forceComplete(t, id, under[0]["id"]))
	start.release()
	c.becomes(t, id, "ACTIVE")
	c.requireOn(t, b, id)
	require.True(t, gophercloud.ResponseCodeIs(c.forceComplete(t, id, under[0]["id"]), http.StatusBadRequest), "it has ended")
	c.hasNothing(t, a, id)
	c.ticksOn(t, id, c.ticks(t, id))

	c.shutOff(t, id)
	require.ErrorContains(t, c.liveMigrate(t, id, &a), "Cannot 'os-migrateLive' instance "+id+" while it is in vm_state stopped")
	c.delete(t, id)
	c.nothingIsLeft(t)
}

// The worker of the new host stands still before it says that the guest has come, and an operator says, wrongly,
// that the host is fenced. The server is off where it was, with the disks and the TPM that it left there. Once that
// worker goes on it stops its guest, before it takes any work.
func TestTheNewHostOfALiveMigrationIsSilent(t *testing.T) {
	backends(t, local, openStack)
	c := twoHosts(t)
	a, b := c.Host(1), c.Host(2)
	id := c.on(t, a, func() string { return c.create(t, delegated) })
	c.counts(t, id, 1, 1, 1)
	asked := c.holdOn(t, b, "domain.Arrived@before")
	require.NoError(t, c.liveMigrate(t, id, &b))
	asked.waits(t, c.progress(id))
	c.signalWorker(t, b, syscall.SIGSTOP)
	asked.release()
	out, err := c.strongroom("--config", c.ConfigFile(), "host", "forget", hostName(t, b), "--yes")
	require.Error(t, err, out)
	c.forceDown(t, b, true)
	c.becomes(t, id, "SHUTOFF")
	c.requireOn(t, a, id)
	oneCopy(t, id, "on the host that should be fenced")

	c.signalWorker(t, b, syscall.SIGCONT)
	c.stops(t, b, id)
	oneCopyAtMost(t, id)
	c.startAgain(t, id)
	c.counts(t, id, 2, 2, 2)
	c.requireOn(t, a, id)
	c.forceDown(t, b, false)
	c.hasNothingSoon(t, b, id)
	oneCopy(t, id)
	require.Empty(t, c.audit(t).Findings)
	c.delete(t, id)
	c.nothingIsLeft(t)
}

// Both hosts of a live migration lose their power. Once both are said to be fenced the server is in ERROR, where
// it was. An evacuate builds it anew on the host that comes back first; what the other one has goes when that returns.
func TestBothHostsOfALiveMigrationAreLost(t *testing.T) {
	backends(t, local, openStack)
	c := twoHosts(t)
	a, b := c.Host(1), c.Host(2)
	id := c.on(t, a, func() string { return c.create(t, delegated) })
	c.counts(t, id, 1, 1, 1)
	asked := c.holdOn(t, b, "domain.Arrived@before")
	require.NoError(t, c.liveMigrate(t, id, &b))
	asked.waits(t, c.progress(id))
	c.powerOff(t, a)
	c.powerOff(t, b)
	asked.release()
	require.Zero(t, copies(id))
	c.forceDown(t, b, true)
	s, err := servers.Get(t.Context(), c.compute(t, "-demo"), id).Extract()
	require.NoError(t, err)
	require.Equal(t, "MIGRATING", s.Status, "the guest may go on where it was")
	c.forceDown(t, a, true)
	c.becomes(t, id, "ERROR")
	c.requireOn(t, a, id)

	off := time.Now()
	c.powerOn(t, b)
	c.forceDown(t, b, false)
	await.For(t, "host 2 is back: that it is up may be what it said before", func() bool { return c.hostService(t, b).UpdatedAt.After(off) }, c.hostProgress(b))
	c.hasNothingSoon(t, b, id) // until then no server goes there of which something waits to be removed
	c.evacuate(t, id, "2.14")
	c.becomes(t, id, "ACTIVE")
	c.requireOn(t, b, id)
	c.counts(t, id, 1, 1, 1)
	c.powerOn(t, a)
	c.forceDown(t, a, false)
	c.hasNothingSoon(t, a, id)
	oneCopy(t, id)
	require.Empty(t, c.audit(t).Findings)
	c.delete(t, id)
	c.nothingIsLeft(t)
}
