package integration_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servergroups"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

// Servers of a group are apart, or together, however many creates come at once; a move keeps to
// that, and to the hints of the create.
func TestServerGroups(t *testing.T) {
	backends(t, local) // it is about the choice of hosts
	c := twoHosts(t)
	client := c.groups(t)
	apart := c.group(t, "anti-affinity")
	active := c.apart(t, apart, 4)
	got, err := servergroups.Get(t.Context(), client, apart).Extract()
	require.NoError(t, err)
	require.ElementsMatch(t, active, got.Members)

	// Neither goes to the other one, off or as it runs, until that is gone.
	was := c.hostNameOf(t, active[0])
	require.NoError(t, servers.Migrate(t.Context(), c.compute(t, "-admin"), active[0]).ExtractErr())
	c.becomes(t, active[0], "ACTIVE")
	require.Contains(t, c.refusedBecause(t, active[0]), compute.NoValidHost)
	require.NoError(t, c.liveMigrate(t, active[0], nil))
	c.becomes(t, active[0], "ACTIVE")
	require.Contains(t, c.refusedBecause(t, active[0]), compute.NoValidHost)
	require.Equal(t, was, c.hostNameOf(t, active[0]))
	together := c.group(t, "affinity")
	first := c.createGrouped(t, servers.SchedulerHintOpts{Group: together})
	c.becomes(t, first, "ACTIVE")
	for range 2 {
		id := c.createGrouped(t, servers.SchedulerHintOpts{Group: together})
		c.becomes(t, id, "ACTIVE")
		require.Equal(t, c.hostNameOf(t, first), c.hostNameOf(t, id))
		c.delete(t, id)
	}
	for _, named := range active {
		beside, away := c.createGrouped(t, servers.SchedulerHintOpts{SameHost: []string{named}}), c.createGrouped(t, servers.SchedulerHintOpts{DifferentHost: []string{named}})
		c.becomes(t, beside, "ACTIVE")
		c.becomes(t, away, "ACTIVE")
		require.Equal(t, c.hostNameOf(t, named), c.hostNameOf(t, beside))
		require.NotEqual(t, c.hostNameOf(t, named), c.hostNameOf(t, away))
		c.delete(t, beside)
		c.delete(t, away)
	}
	c.delete(t, first)
	c.delete(t, active[1])
	c.migrate(t, active[0])
	require.NotEqual(t, was, c.hostNameOf(t, active[0]))
	require.NoError(t, servers.RevertResize(t.Context(), client, active[0]).ExtractErr())
	c.becomes(t, active[0], "ACTIVE")
	require.Equal(t, was, c.hostNameOf(t, active[0]))
	c.delete(t, active[0])
	c.nothingIsLeft(t)
}

// groups gives a client that knows servers' groups.
func (c *testCloud) groups(t *testing.T) *gophercloud.ServiceClient {
	t.Helper()
	client := *c.compute(t, "-demo")
	client.Microversion = "2.71"
	return &client
}

// group makes a group of servers, which goes when the test ends.
func (c *testCloud) group(t *testing.T, policy string) string {
	t.Helper()
	client := c.groups(t)
	g, err := servergroups.Create(t.Context(), client, servergroups.CreateOpts{Name: policy, Policy: policy}).Extract()
	require.NoError(t, err)
	t.Cleanup(func() { _ = servergroups.Delete(context.Background(), client, g.ID).ExtractErr() })
	return g.ID
}

// createGrouped asks for a server that does nothing, with hints.
func (c *testCloud) createGrouped(t *testing.T, hints servers.SchedulerHintOpts) string {
	t.Helper()
	client := c.groups(t)
	opts := servers.CreateOpts{Name: "grouped", FlavorRef: c.flavor(t, unspoken), ImageRef: c.idler, Networks: "none"}
	s, err := servers.Create(t.Context(), client, opts, hints).Extract()
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = servers.Delete(context.Background(), client, s.ID).ExtractErr()
		c.gone(t, s.ID)
	})
	return s.ID
}

func (c *testCloud) hostNameOf(t *testing.T, id string) string {
	t.Helper()
	return hostName(t, c.hostOf(t, id))
}

// atOnce asks for so many servers of a group at once.
func (c *testCloud) atOnce(t *testing.T, group string, count int) []string {
	t.Helper()
	c.flavor(t, unspoken)
	ids := make([]string, count)
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() { ids[i] = c.createGrouped(t, servers.SchedulerHintOpts{Group: group}) })
	}
	all.Wait()
	return ids
}

// apart asks for so many servers at once of a group whose servers are apart, and gives the two that the two hosts have. The others
// found no host, and are deleted.
func (c *testCloud) apart(t *testing.T, group string, count int) (active []string) {
	t.Helper()
	for _, id := range c.atOnce(t, group, count) {
		if s := c.settled(t, id); s.Status == "ACTIVE" {
			active = append(active, id)
		} else {
			require.Equal(t, "ERROR", s.Status)
			require.Equal(t, compute.NoValidHost, s.Fault.Message)
			c.delete(t, id)
		}
	}
	require.Len(t, active, 2)
	require.NotEqual(t, c.hostNameOf(t, active[0]), c.hostNameOf(t, active[1]))
	return active
}

// A worker dies while hosts are claimed for servers of a group that are created at once: they are apart, or together, all the same,
// and as many as there can be.
func TestKillMatrixServerGroups(t *testing.T) {
	backends(t, local) // it is about the choice of hosts
	t.Parallel()
	for _, point := range cutsOf("groups", cuts.groups) {
		t.Run(point, func(t *testing.T) {
			c := twoHosts(t)
			c.arm(t, point)
			active := c.apart(t, c.group(t, "anti-affinity"), 3)
			c.arm(t, point)
			together := c.atOnce(t, c.group(t, "affinity"), 2)
			for _, id := range together {
				c.becomes(t, id, "ACTIVE")
			}
			require.Equal(t, c.hostNameOf(t, together[0]), c.hostNameOf(t, together[1]))
			for _, id := range slices.Concat(active, together) {
				c.delete(t, id)
			}
			c.nothingIsLeft(t)
		})
	}
}
