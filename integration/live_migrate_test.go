package integration_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/stretchr/testify/require"

	"strongroom/deploy/dev/stack"
)

// liveMigrate asks for a live migration, to a host or, with nil, to any.
func (c *testCloud) liveMigrate(t *testing.T, id string, to *stack.Host) error {
	t.Helper()
	var host any
	if to != nil {
		host = hostName(t, *to)
	}
	client := *c.compute(t, "-admin")
	client.Microversion = "2.80"
	resp, err := client.Post(t.Context(), client.ServiceURL("servers", id, "action"),
		map[string]any{"os-migrateLive": map[string]any{"host": host, "block_migration": "auto"}}, nil, &gophercloud.RequestOpts{OkCodes: []int{http.StatusAccepted}})
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// newestTick is the newest tick that a guest has said on a host, 0 without one.
func (c *testCloud) newestTick(t *testing.T, id string) int {
	t.Helper()
	log, _ := os.ReadFile(filepath.Join(c.hostOf(t, id).Instances(), id, "console.log")) // not there at first
	all := regexp.MustCompile(`TG tick=(\d+)\s`).FindAllStringSubmatch(string(log), -1)
	if len(all) == 0 {
		return 0
	}
	n, err := strconv.Atoi(all[len(all)-1][1])
	require.NoError(t, err)
	return n
}

// ticksOn waits until the guest has ticked after a tick, on the host that it is on.
func (c *testCloud) ticksOn(t *testing.T, id string, after int) {
	t.Helper()
	require.Eventually(t, func() bool { return c.newestTick(t, id) > after }, settleTimeout, 250*time.Millisecond)
}

// runsOnce looks until the test ends, and fails it if a guest ever runs on both hosts.
func (c *testCloud) runsOnce(t *testing.T, id string) {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	twice := make(chan bool)
	a, b, server := c.Host(1), c.Host(2), uuid.MustParse(id)
	go func() {
		seen := false
		for ctx.Err() == nil {
			// It comes back only when somebody has it moved: on one host before and after it was
			// seen on the other one, it runs on both.
			seen = seen || domainRuns(ctx, a, server) && domainRuns(ctx, b, server) && domainRuns(ctx, a, server)
			time.Sleep(20 * time.Millisecond)
		}
		twice <- seen
	}()
	t.Cleanup(func() {
		stop()
		require.False(t, <-twice, "it ran on both hosts")
	})
}

// TPM-20, EE-29: a guest moves while it runs, and comes back: its memory, its disks and its TPM go
// along, its keys are those that it had, and the host that it leaves has nothing of it.
func TestLiveMigrate(t *testing.T) {
	backends(t, local, openStack)
	c := twoHosts(t)
	a, b := c.Host(1), c.Host(2)
	id := c.on(t, a, func() string { return c.create(t, delegated) })
	c.counts(t, id, 1, 1, 1)
	keys := c.keysOf(t, id)
	c.runsOnce(t, id)
	for _, to := range []stack.Host{b, a} {
		from := c.hostOf(t, id)
		line := c.serial(t, id)
		line.expect("TG tick=")
		require.Contains(t, line.ask("write note "+hostName(t, to), "TG write "), "err=<nil>")
		require.NoError(t, line.conn.Close())
		c.ticksOn(t, id, 0)
		was := c.newestTick(t, id)
		require.NoError(t, c.liveMigrate(t, id, &to))
		c.becomes(t, id, "ACTIVE")
		require.Empty(t, c.newestAction(t, id).Message)
		c.requireOn(t, to, id)
		c.hasNothing(t, from, id)
		c.ticksOn(t, id, was)
		require.Equal(t, 1, copies(id))
		require.Zero(t, c.remains(t, to, id).Secrets)
		line = c.serial(t, id)
		require.Contains(t, line.ask("cat /root/note", "TG cat "), hostName(t, to))
		require.NoError(t, line.conn.Close())
		require.Equal(t, keys, c.keysOf(t, id))
		require.Empty(t, c.audit(t).Findings)
	}
	c.shutOff(t, id)
	c.startAgain(t, id)
	c.counts(t, id, 1, 2, 2)
	c.delete(t, id)
	c.nothingIsLeft(t)
}

// domainRuns reports whether a host's libvirt shows a server's domain as running.
func domainRuns(ctx context.Context, h stack.Host, id uuid.UUID) bool {
	conn := libvirt.NewWithDialer(hypervisor{h})
	if ctx.Err() != nil || conn.Connect() != nil {
		return false
	}
	defer func() { _ = conn.Disconnect() }()
	dom, err := conn.DomainLookupByUUID(libvirt.UUID(id))
	if err != nil {
		return false
	}
	state, _, err := conn.DomainGetState(dom, 0)
	return err == nil && libvirt.DomainState(state) == libvirt.DomainRunning
}

// migrations gives the live migrations of a server that are under way.
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

// A live migration that is aborted leaves the guest where it is; what cannot be is refused before
// anything moves.
func TestLiveMigrateAbortAndRefusals(t *testing.T) {
	backends(t, local)
	c := twoHosts(t)
	a, b := c.Host(1), c.Host(2)
	id := c.on(t, a, func() string { return c.create(t, delegated) })
	c.runsOnce(t, id)
	c.ticksOn(t, id, 0)
	require.ErrorContains(t, c.liveMigrate(t, id, &a), "to current host")

	start := c.holdOn(t, a, "domain.Migrate@before")
	require.NoError(t, c.liveMigrate(t, id, &b))
	require.Eventually(t, start.reached, settleTimeout, settleTimeout/1000)
	under := c.migrationsOf(t, id)
	require.Len(t, under, 1)
	require.Equal(t, []any{"running", hostName(t, a), hostName(t, b)}, []any{under[0]["status"], under[0]["source_compute"], under[0]["dest_compute"]})
	client := *c.compute(t, "-admin")
	client.Microversion = "2.80"
	abort := func() error {
		resp, err := client.Delete(t.Context(), client.ServiceURL("servers", id, "migrations", fmt.Sprint(under[0]["id"])), nil)
		if err != nil {
			return err
		}
		return resp.Body.Close()
	}
	require.NoError(t, abort())
	start.release()
	c.becomes(t, id, "ACTIVE")
	c.requireOn(t, a, id)
	require.Empty(t, c.migrationsOf(t, id))
	require.True(t, gophercloud.ResponseCodeIs(abort(), http.StatusBadRequest), "it has ended")
	c.hasNothing(t, b, id)
	c.ticksOn(t, id, c.newestTick(t, id))
	require.Empty(t, c.audit(t).Findings)

	c.shutOff(t, id)
	require.ErrorContains(t, c.liveMigrate(t, id, &b), "Cannot 'os-migrateLive' instance "+id+" while it is in vm_state stopped")
	c.delete(t, id)
	c.nothingIsLeft(t)
}

// EE-29: a worker that dies in the midst of a live migration leaves one copy of the guest, on the host
// that the record says, and nothing of the move.
func TestLiveMigrateKilled(t *testing.T) {
	backends(t, local)
	c := twoHosts(t)
	a, b := c.Host(1), c.Host(2)
	id := c.on(t, a, func() string { return c.create(t, delegated) })
	c.runsOnce(t, id)
	for _, k := range []struct {
		atSource bool
		point    string
		moves    bool
	}{
		{true, "domain.Migrate@before", false},
		{true, "domain.Migrate@after", true},
		{false, "domain.Expect@after", true},
		{false, "domain.Arrived@before", true},
		{false, "domain.Arrived@after", true},
	} {
		from, to := c.hostOf(t, id), a
		if from == a {
			to = b
		}
		c.ticksOn(t, id, 0)
		was := c.newestTick(t, id)
		at := to
		if k.atSource {
			at = from
		}
		c.armOn(t, at, k.point)
		require.NoError(t, c.liveMigrate(t, id, &to), k.point)
		c.becomes(t, id, "ACTIVE")
		if !k.moves {
			from, to = to, from
		}
		c.requireOn(t, to, id)
		c.hasNothingSoon(t, from, id)
		require.Equal(t, 1, copies(id), k.point)
		c.ticksOn(t, id, was)
		require.Empty(t, c.audit(t).Findings, k.point)
	}
	c.delete(t, id)
	c.nothingIsLeft(t)
}
