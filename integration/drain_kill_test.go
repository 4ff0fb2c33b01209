package integration_test

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/require"

	"strongroom/deploy/dev/stack"
)

// drained servers of a test: one that is off, and one that runs, with what their guests counted.
type drainage struct {
	*testCloud
	off, runs *mover
	disk      [sha256.Size]byte // of the one that is off
	tpm       files             // its vTPM's state
	from, to  stack.Host
}

// EE-29: whatever dies in a drain, it ends, and says of each server what became of it. None runs
// twice, none is lost, and what did not leave does so by the next drain, after which the host has
// nothing of them. Their disks and vTPMs are what they were, bit for bit of the one that is off.
func TestKillMatrixDrain(t *testing.T) {
	backends(t, local, openStack)
	c := twoHosts(t)
	d := &drainage{testCloud: c, from: c.Host(2), to: c.Host(1)}
	counting := func(f flavorSpec) *mover {
		m := &mover{testCloud: c, id: c.on(t, d.from, func() string { return c.create(t, f) })}
		m.writes(t)
		return m
	}
	d.off, d.runs = counting(encryptedTIS), counting(delegated)
	oneCopyAtMost(t, d.off.id)
	c.runsOnce(t, d.runs.id)
	c.shutOff(t, d.off.id)
	d.disk, d.tpm = d.offDisk(t, d.from), c.remains(t, d.from, d.off.id).TPM.state()
	require.NotEmpty(t, d.tpm)
	parts := append(slices.Clone(partsOfAMove), sourcePower, destinationPower)
	for _, point := range troublesOf("drain", cuts.drain, parts, []string{"disk.Receive", "domain.Migrate"}, 2) {
		t.Run(point, func(t *testing.T) { d.leave(t, point) })
	}
	c.startAgain(t, d.off.id)
	d.off.goesOn(t, d.off.note, d.off.counted)
	for _, m := range []*mover{d.off, d.runs} {
		c.delete(t, m.id)
	}
	c.nothingIsLeft(t)
}

// offDisk is the sha256 of the disk of the server that is off, on a host, but for its first cluster: that
// names the image in the host's cache.
func (d *drainage) offDisk(t *testing.T, h stack.Host) [sha256.Size]byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(h.Instances(), d.off.id, "disk"))
	require.NoError(t, err)
	require.Greater(t, len(data), 64<<10)
	return sha256.Sum256(data[64<<10:])
}

// leave drains the host, which meets trouble, and once more where servers are left.
func (d *drainage) leave(t *testing.T, point string) {
	t.Helper()
	strike := d.meets(t, point, d.from, d.to, d.progress(d.off.id), d.progress(d.runs.id))
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
		d.settled(t, d.off.id)
		d.settled(t, d.runs.id)
		d.nothingIsLeftInTime(t)
		ended, err = d.drain(t, d.from, "--wait", "--timeout", settleTimeout.String())
		require.NoError(t, err, "%+v", ended.Servers)
	}
	d.becomes(t, d.off.id, "SHUTOFF")
	require.Zero(t, copies(d.off.id))
	if strings.Contains(point, "power") && copies(d.runs.id) == 0 {
		d.shows(t, d.runs.id, "SHUTOFF", servers.SHUTDOWN)
		d.startAgain(t, d.runs.id)
	}
	d.becomes(t, d.runs.id, "ACTIVE")
	oneCopy(t, d.runs.id)
	for _, m := range []*mover{d.off, d.runs} {
		d.requireOn(t, d.to, m.id)
		d.hasNothingSoon(t, d.from, m.id)
	}
	d.nothingIsLeftInTime(t)
	d.runs.goesOn(t, d.runs.note, d.runs.counted)
	require.Equal(t, d.disk, d.offDisk(t, d.to), "bit for bit")
	require.Equal(t, d.tpm, d.remains(t, d.to, d.off.id).TPM.state(), "bit for bit, modes and owners too")
	out, err := d.strongroom("--config", d.ConfigFile(), "host", "undrain", hostName(t, d.from))
	require.NoError(t, err, out)
	d.from, d.to = d.to, d.from
}
