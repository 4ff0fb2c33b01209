package integration_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/deploy/dev/process"
	"strongroom/deploy/dev/stack"
)

// twoReleases gives a cloud of the test's own with two hosts. The worker of the second one is of an earlier release.
func twoReleases(t *testing.T) (c *testCloud, newer, older stack.Host) {
	t.Helper()
	t.Parallel()
	needRoot(t)
	ownClouds.borrow(t, alone, 1)
	p, err := made()
	require.NoError(t, err)
	everybodys := p.binary
	p.binary = filepath.Join(folder, "strongroom-of-two")
	require.NoError(t, os.Link(everybodys, p.binary))
	c, err = p.start("earlier", 2, coreServices)
	if c != nil {
		t.Cleanup(c.end)
	}
	require.NoError(t, err)
	c.runs(t, c.Host(2), os.Getenv(earlierVariable))
	return c, c.Host(1), c.Host(2)
}

// runs has the worker of a host be another program, from now on until it ends.
func (c *testCloud) runs(t *testing.T, h stack.Host, program string) {
	t.Helper()
	if own := c.binary + ".own"; program != c.binary { // from which everything else starts
		require.NoError(t, os.Rename(c.binary, own))
		require.NoError(t, os.Symlink(program, c.binary))
		defer func() { require.NoError(t, os.Rename(own, c.binary)) }()
	}
	c.restartHost(t, h)
	pid, running := process.Named(c.PIDFile(h.Part("host")))
	require.True(t, running)
	now, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	require.NoError(t, err)
	require.Equal(t, program, now)
}

// EE-41: while hosts are upgraded one after another, servers with encrypted disks and vTPMs are made, stopped, started, rebuilt, copied, moved
// while they run and deleted on one whose worker is of an earlier release, as on the others. One that asks for what that release does not know lands
// on another host, or on none; what its worker cannot do with another release's fails, and the server is as it was. The worker's upgrade changes
// nothing of its servers, whose guests run on.
func TestEE41HostsOfTwoReleases(t *testing.T) {
	besideEarlier(t, local)
	c, newer, older := twoReleases(t)
	has := func(h stack.Host, trait string) (yes bool) {
		t.Helper()
		require.NoError(t, c.database(t).QueryRow(t.Context(), "SELECT $2 = ANY (traits) FROM hosts WHERE name = $1", hostName(t, h), trait).Scan(&yes))
		return yes
	}
	for _, trait := range []string{compute.TraitEncryptionLUKS, compute.TraitTPM20} {
		require.True(t, has(newer, trait) && has(older, trait), trait)
	}
	require.True(t, has(newer, compute.TraitUEFI) && !has(older, compute.TraitUEFI))

	id := c.on(t, older, func() string { return c.create(t, encryptedTPM) })
	c.counts(t, id, 1, 1, 1)
	c.shutOff(t, id)
	c.startAgain(t, id)
	c.counts(t, id, 2, 2, 2)
	c.rebuild(t, id, c.image, "ACTIVE")
	c.counts(t, id, 3, 1, 3)
	img := c.createImage(t, id, "copy", map[string]any{"key": "new"})
	copied := c.on(t, older, func() string { return c.createOf(t, unspoken, img.ID) })
	require.NotEmpty(t, c.disks(t, copied)[0].Backing)
	require.Empty(t, c.audit(t).Findings)
	c.delete(t, copied)
	c.hasNothing(t, older, copied)
	c.deleteImage(t, img)

	asks, remove := c.guestAsking(t, asksUEFI)
	defer remove()
	lands := c.createOf(t, uefiFlavor, asks)
	c.becomes(t, lands, "ACTIVE")
	c.requireOn(t, newer, lands)
	c.updateService(t, newer, map[string]any{"status": "disabled"})
	nowhere := c.createOf(t, uefiFlavor, asks)
	require.Equal(t, "No valid host was found. There are not enough hosts available.", c.becomes(t, nowhere, "ERROR").Fault.Message)
	c.updateService(t, newer, map[string]any{"status": "enabled"})
	c.delete(t, nowhere)
	c.delete(t, lands)

	migrate := func() { require.NoError(t, servers.Migrate(t.Context(), c.compute(t, ""), id).ExtractErr()) }
	migrate() // disks go between hosts of one release
	require.Contains(t, c.refusedBecause(t, id), "receive_disks: ")
	require.Equal(t, "ACTIVE", c.settled(t, id).Status)
	c.requireOn(t, older, id)
	c.hasNothing(t, newer, id)
	c.counts(t, id, 4, 2, 4)
	for _, to := range []stack.Host{newer, older} {
		c.movesRunning(t, id, to)
		oneCopy(t, id)
		require.Empty(t, c.audit(t).Findings)
	}
	c.hasNothing(t, newer, id)

	guest := machines()[id]
	require.Len(t, guest, 1)
	c.runs(t, older, c.binary)
	require.True(t, has(older, compute.TraitUEFI))
	require.Equal(t, guest, machines()[id], "it runs on")
	c.ticksOn(t, id, c.ticks(t, id))
	require.Empty(t, c.audit(t).Findings)
	migrate()
	c.becomes(t, id, "VERIFY_RESIZE")
	c.requireOn(t, newer, id)
	c.counts(t, id, 1, 3, 5)
	c.confirm(t, id)
	c.hasNothing(t, older, id)
	c.delete(t, id)
	c.nothingIsLeft(t)
}
