package integration_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/services"
	"github.com/stretchr/testify/require"

	"strongroom/deploy/await"
	"strongroom/deploy/dev/stack"
)

// twoHosts gives a cloud with two compute hosts that nobody else uses until the test ends:
// each with a libvirtd, a host worker, files and namespaces of its own. At the end both are on,
// joined, and take servers. It counts as one of the clouds of tests' own.
func twoHosts(t *testing.T) *testCloud {
	t.Helper()
	t.Parallel()
	needRoot(t)
	c := lend(t, onTwoHosts)
	t.Cleanup(func() {
		for n := range c.hosts {
			c.restoreHost(t, c.Host(n+1))
		}
	})
	return c
}

// restoreHost undoes what a test did to a host.
func (c *testCloud) restoreHost(t *testing.T, h stack.Host) {
	t.Helper()
	c.powerOn(t, h)
	if h.Number > 1 {
		c.link(t, h, true)
		c.control(t, h, true)
	}
	c.updateService(t, h, map[string]any{"forced_down": false, "status": "enabled"})
}

// hostName is a host's name in the API.
func hostName(t *testing.T, h stack.Host) string {
	t.Helper()
	name, err := h.Name()
	require.NoError(t, err)
	return name
}

// hostOf gives the host that a server is on. A server without a host was on the first.
func (c *testCloud) hostOf(t *testing.T, id string) stack.Host {
	t.Helper()
	if c.hosts == 1 {
		return c.Host(1)
	}
	s, err := servers.Get(context.WithoutCancel(t.Context()), c.compute(t, ""), id).Extract()
	require.NoError(t, err)
	for n := range c.hosts {
		if hostName(t, c.Host(n+1)) == s.Host {
			return c.Host(n + 1)
		}
	}
	return c.Host(1)
}

// requireOn requires that a server is on a host.
func (c *testCloud) requireOn(t *testing.T, h stack.Host, id string) {
	t.Helper()
	s, err := servers.Get(t.Context(), c.compute(t, ""), id).Extract()
	require.NoError(t, err)
	require.Equal(t, hostName(t, h), s.Host)
}

// on has the new servers that are made within do be placed on a host.
func (c *testCloud) on(t *testing.T, h stack.Host, do func() string) string {
	t.Helper()
	others := func(status string) {
		for n := range c.hosts {
			if other := c.Host(n + 1); other != h {
				c.updateService(t, other, map[string]any{"status": status})
			}
		}
	}
	others("disabled")
	defer others("enabled")
	id := do()
	c.becomes(t, id, "ACTIVE")
	c.requireOn(t, h, id)
	return id
}

// unshelveTo has a server unshelved on a host.
func (c *testCloud) unshelveTo(t *testing.T, h stack.Host, id string) {
	t.Helper()
	client := *c.compute(t, "")
	client.Microversion = "2.91"
	resp, err := client.Post(t.Context(), client.ServiceURL("servers", id, "action"), map[string]any{"unshelve": map[string]any{"host": hostName(t, h)}}, nil,
		&gophercloud.RequestOpts{OkCodes: []int{http.StatusAccepted}})
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
}

// service gives what the API says of a host.
func (c *testCloud) hostService(t *testing.T, h stack.Host) services.Service {
	t.Helper()
	pages, err := services.List(c.compute(t, ""), services.ListOpts{Host: hostName(t, h), Binary: "nova-compute"}).AllPages(context.WithoutCancel(t.Context()))
	require.NoError(t, err)
	all, err := services.ExtractServices(pages)
	require.NoError(t, err)
	require.Len(t, all, 1)
	return all[0]
}

// updateService changes what the API says of a host: status, forced_down.
func (c *testCloud) updateService(t *testing.T, h stack.Host, change map[string]any) {
	t.Helper()
	client := c.compute(t, "")
	for key, value := range change { // one request changes one of them
		resp, err := client.Put(context.WithoutCancel(t.Context()), client.ServiceURL("os-services", c.hostService(t, h).ID), map[string]any{key: value}, nil,
			&gophercloud.RequestOpts{OkCodes: []int{http.StatusOK}})
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}
}

// forceDown says that a host is fenced, as an operator does.
func (c *testCloud) forceDown(t *testing.T, h stack.Host, down bool) {
	t.Helper()
	c.updateService(t, h, map[string]any{"forced_down": down})
}

// isDown waits until a host counts as down, or as up.
func (c *testCloud) isDown(t *testing.T, h stack.Host, down bool) {
	t.Helper()
	state := map[bool]string{true: "down", false: "up"}[down]
	await.For(t, fmt.Sprintf("host %d is %s", h.Number, state), func() bool { return c.hostService(t, h).State == state }, c.hostProgress(h))
}

// powerOff ends a host as the loss of its power does: its worker, libvirtd, QEMU and swtpm are
// gone at once, and what was not on disk.
func (c *testCloud) powerOff(t *testing.T, h stack.Host) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), settleTimeout)
	defer cancel()
	require.NoError(t, h.PowerOff(ctx))
}

// powerOn starts a host again: its libvirtd and its worker. What ran there is off.
func (c *testCloud) powerOn(t *testing.T, h stack.Host) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), settleTimeout)
	defer cancel()
	require.NoError(t, h.PowerOn(ctx))
}

// link cuts the network between a host, which is not the first, and the others, or mends it.
// Temporal and the gateway are reached all the same.
func (c *testCloud) link(t *testing.T, h stack.Host, up bool) {
	t.Helper()
	require.NoError(t, h.SetLink(context.WithoutCancel(t.Context()), up))
}

// control cuts a host, which is not the first, from Temporal and the gateway, or mends it.
func (c *testCloud) control(t *testing.T, h stack.Host, up bool) {
	t.Helper()
	require.NoError(t, h.SetControl(context.WithoutCancel(t.Context()), up))
}

// armOn is arm of a point on one host.
func (c *testCloud) armOn(t *testing.T, h stack.Host, point string) {
	t.Helper()
	c.arm(t, point+"@"+hostName(t, h))
}

// holdOn is hold of a point on one host.
func (c *testCloud) holdOn(t *testing.T, h stack.Host, point string) held {
	t.Helper()
	return c.hold(t, point+"@"+hostName(t, h))
}
