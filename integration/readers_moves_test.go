package integration_test

import (
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"strongroom/deploy/cloud"
)

// EE-30, EE-38: where Barbican's policy does not let administrators of a project read what users keep to themselves, such an
// administrator neither migrates nor evacuates a server whose user keeps its key, and reads why: the server is where it was, and
// nothing of it elsewhere. Under Barbican's own policy he does both.
func TestEE38AnAdministratorMovesAPrivateServer(t *testing.T) {
	backends(t, openStack)
	c := twoHosts(t)
	to, from := c.Host(1), c.Host(2)
	id := c.on(t, from, func() string { return c.createIdle(t, encrypted) })
	a := attempt{reader: reader{private: true}, testCloud: c, server: id, key: c.disks(t, id)[0].Secret}
	c.keepPrivate(t, a.key, a.reader)
	policy := func(rules map[string]string) {
		t.Helper()
		require.NoError(t, c.real.SetBarbicanPolicy(rules))
		a.may = rules == nil
	}
	t.Cleanup(func() { assert.NoError(t, c.real.SetBarbicanPolicy(nil)) })
	stays := func() {
		t.Helper()
		c.requireOn(t, from, id)
		c.hasNothing(t, to, id)
	}
	migrate := func(client *gophercloud.ServiceClient) error {
		return servers.Migrate(t.Context(), client, id).ExtractErr()
	}

	policy(cloud.NoAdminReads)
	a.do(t, "migrate", "ACTIVE", "", migrate)
	stays()
	policy(nil)
	a.do(t, "migrate", "ACTIVE", "VERIFY_RESIZE", migrate)
	c.requireOn(t, to, id)
	c.revert(t, id)
	stays()

	c.powerOff(t, from)
	c.isDown(t, from, true)
	c.forceDown(t, from, true)
	policy(cloud.NoAdminReads)
	c.evacuate(t, id, "2.14")
	require.Equal(t, "ACTIVE", c.settled(t, id).Status, "the record has it as it was")
	require.Contains(t, c.refusedBecause(t, id), "check_secrets: read secret "+a.key)
	stays()
	policy(nil)
	c.evacuate(t, id, "2.14")
	c.becomes(t, id, "ACTIVE")
	c.requireOn(t, to, id)
	require.Equal(t, a.key, c.disks(t, id)[0].Secret, "as private as it was")

	c.powerOn(t, from)
	c.forceDown(t, from, false)
	c.hasNothingSoon(t, from, id)
	c.delete(t, id)
	c.nothingIsLeft(t)
}
