package integration_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/require"

	"strongroom/deploy/dev/stack"
)

// drained servers of a test: one that is off, and one that runs.
type drainage struct {
	*testCloud
	off, runs string
	from, to  stack.Host
}

// EE-29: whatever dies in a drain, it ends, and says of each server what became of it. None runs
// twice, none is lost, and what did not leave does so by the next drain, after which the host has
// nothing of them.
func TestKillMatrixDrain(t *testing.T) {
	backends(t, local, openStack)
	c := twoHosts(t)
	d := &drainage{testCloud: c, from: c.Host(2), to: c.Host(1)}
	d.off = c.on(t, d.from, func() string { return c.createIdle(t, encryptedTIS) })
	d.runs = c.on(t, d.from, func() string { return c.createIdle(t, delegated) })
	oneCopyAtMost(t, d.off)
	c.runsOnce(t, d.runs)
	c.shutOff(t, d.off)
	parts := append(slices.Clone(partsOfAMove), sourcePower, destinationPower)
	for _, point := range troublesOf("drain", cuts.drain, parts, []string{"disk.Receive", "domain.Migrate"}, 2) {
		t.Run(point, func(t *testing.T) { d.leave(t, point) })
	}
	for _, id := range []string{d.off, d.runs} {
		c.delete(t, id)
	}
	c.nothingIsLeft(t)
}

// leave drains the host, which meets trouble, and once more where servers are left.
func (d *drainage) leave(t *testing.T, point string) {
	t.Helper()
	strike := d.meets(t, point, d.from, d.to)
	_, err := d.drain(t, d.from)
	require.NoError(t, err)
	strike()
	ended, _ := d.drain(t, d.from, "--wait", "--status", "--timeout", settleTimeout.String()) // that servers are left is an error
	t.Logf("it has %s: %+v", ended.State, ended.Servers)
	require.Len(t, ended.Servers, 2)
	for _, s := range ended.Servers {
		require.Contains(t, []string{"moved", "left", "failed"}, s.State)
		require.Equal(t, s.State == "moved", s.Reason == "", "%s: %s", s.State, s.Reason)
	}
	if ended.State != "succeeded" {
		require.Contains(t, point, " at ", "a worker that comes back completes the drain")
		d.settled(t, d.off)
		d.settled(t, d.runs)
		d.nothingIsLeftInTime(t)
		ended, err = d.drain(t, d.from, "--wait", "--timeout", settleTimeout.String())
		require.NoError(t, err, "%+v", ended.Servers)
	}
	d.becomes(t, d.off, "SHUTOFF")
	require.Zero(t, copies(d.off))
	if strings.Contains(point, "power") && copies(d.runs) == 0 {
		d.shows(t, d.runs, "SHUTOFF", servers.SHUTDOWN)
		d.startAgain(t, d.runs)
	}
	d.becomes(t, d.runs, "ACTIVE")
	require.Equal(t, 1, copies(d.runs))
	for _, id := range []string{d.off, d.runs} {
		d.requireOn(t, d.to, id)
		d.hasNothingSoon(t, d.from, id)
	}
	d.nothingIsLeftInTime(t)
	out, err := d.strongroom("--config", d.ConfigFile(), "host", "undrain", hostName(t, d.from))
	require.NoError(t, err, out)
	d.from, d.to = d.to, d.from
}
