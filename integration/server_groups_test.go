package integration_test

import (
	"context"
	"sync"
	"testing"

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
	client := *c.compute(t, "-demo")
	client.Microversion = "2.71"
	f := c.flavor(t, unspoken)
	group := func(policy string) string {
		t.Helper()
		g, err := servergroups.Create(t.Context(), &client, servergroups.CreateOpts{Name: policy, Policy: policy}).Extract()
		require.NoError(t, err)
		t.Cleanup(func() { _ = servergroups.Delete(context.Background(), &client, g.ID).ExtractErr() })
		return g.ID
	}
	create := func(hints servers.SchedulerHintOpts) string {
		t.Helper()
		s, err := servers.Create(t.Context(), &client, servers.CreateOpts{Name: "grouped", FlavorRef: f, ImageRef: c.idler, Networks: "none"}, hints).Extract()
		require.NoError(t, err)
		t.Cleanup(func() {
			_ = servers.Delete(context.Background(), &client, s.ID).ExtractErr()
			c.gone(t, s.ID)
		})
		return s.ID
	}
	hostOf := func(id string) string {
		t.Helper()
		return hostName(t, c.hostOf(t, id))
	}

	apart := group("anti-affinity")
	ids := make([]string, 4)
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() { ids[i] = create(servers.SchedulerHintOpts{Group: apart}) })
	}
	all.Wait()
	var active []string
	for _, id := range ids {
		if s := c.settled(t, id); s.Status == "ACTIVE" {
			active = append(active, id)
		} else {
			require.Equal(t, "ERROR", s.Status)
			require.Equal(t, compute.NoValidHost, s.Fault.Message)
			c.delete(t, id)
		}
	}
	require.Len(t, active, 2)
	require.NotEqual(t, hostOf(active[0]), hostOf(active[1]))
	got, err := servergroups.Get(t.Context(), &client, apart).Extract()
	require.NoError(t, err)
	require.ElementsMatch(t, active, got.Members)

	// Neither goes to the other one, off or as it runs, until that is gone.
	was := hostOf(active[0])
	require.NoError(t, servers.Migrate(t.Context(), c.compute(t, "-admin"), active[0]).ExtractErr())
	c.becomes(t, active[0], "ACTIVE")
	require.Contains(t, c.refusedBecause(t, active[0]), compute.NoValidHost)
	require.NoError(t, c.liveMigrate(t, active[0], nil))
	c.becomes(t, active[0], "ACTIVE")
	require.Contains(t, c.refusedBecause(t, active[0]), compute.NoValidHost)
	require.Equal(t, was, hostOf(active[0]))
	together := group("affinity")
	first := create(servers.SchedulerHintOpts{Group: together})
	c.becomes(t, first, "ACTIVE")
	for range 2 {
		id := create(servers.SchedulerHintOpts{Group: together})
		c.becomes(t, id, "ACTIVE")
		require.Equal(t, hostOf(first), hostOf(id))
		c.delete(t, id)
	}
	for _, named := range active {
		beside, away := create(servers.SchedulerHintOpts{SameHost: []string{named}}), create(servers.SchedulerHintOpts{DifferentHost: []string{named}})
		c.becomes(t, beside, "ACTIVE")
		c.becomes(t, away, "ACTIVE")
		require.Equal(t, hostOf(named), hostOf(beside))
		require.NotEqual(t, hostOf(named), hostOf(away))
		c.delete(t, beside)
		c.delete(t, away)
	}
	c.delete(t, first)
	c.delete(t, active[1])
	c.migrate(t, active[0])
	require.NotEqual(t, was, hostOf(active[0]))
	require.NoError(t, servers.RevertResize(t.Context(), &client, active[0]).ExtractErr())
	c.becomes(t, active[0], "ACTIVE")
	require.Equal(t, was, hostOf(active[0]))
	c.delete(t, active[0])
	c.nothingIsLeft(t)
}
