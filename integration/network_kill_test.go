package integration_test

import (
	"fmt"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/stretchr/testify/require"

	"strongroom/deploy/await"
	"strongroom/deploy/dev/stack"
)

// Workers die at what operations ask of Neutron, in the lives of servers with a port that strongroom makes and one that its user
// brought: each operation completes, the ports are bound to the host that the server is on and to no other, and the audit finds nothing.
func TestKillMatrixPorts(t *testing.T) {
	backends(t, openStack)
	c := networkCloudOf(t, 2)
	a, b := c.Host(1), c.Host(2)
	user, admin := c.networking(t, "-demo"), c.networking(t, "")
	lan := newLAN(t, user)
	brought, err := ports.Create(t.Context(), user, ports.CreateOpts{NetworkID: lan.ID, Name: "mine"}).Extract()
	require.NoError(t, err)
	var id string
	on := func(t *testing.T, hosts ...stack.Host) {
		t.Helper()
		var names []string
		for _, h := range hosts {
			c.requireOn(t, h, id)
			names = append(names, hostName(t, h))
		}
		all := serverPorts(t, admin, id)
		require.Len(t, all, 2)
		for _, p := range all {
			var is boundPort
			await.For(t, fmt.Sprintf("port %s is at %v", p.ID, names), func() bool {
				is = boundPort{}
				require.NoError(t, ports.Get(t.Context(), admin, p.ID).ExtractInto(&is))
				return len(names) == 0 && is.HostID == "" || len(names) > 0 && is.HostID == names[0] && is.Status == "ACTIVE"
			}, await.Witness{Name: "port", Look: func() string { return is.HostID + " " + is.Status }})
			if len(names) > 0 {
				require.Equal(t, names, bindingsOf(t, admin, p.ID))
			}
		}
		require.Empty(t, c.audit(t).Findings)
	}
	life := []struct {
		operation  string
		activities []string
		do         func(*testing.T)
	}{
		{"create with ports", cuts.portCreate, func(t *testing.T) {
			id = c.on(t, a, func() string {
				return c.createIdle(t, encrypted, func(o *servers.CreateOpts) { o.Networks = []servers.Network{{UUID: lan.ID}, {Port: brought.ID}} })
			})
			on(t, a)
		}},
		{"live migration with ports", cuts.portMove, func(t *testing.T) {
			require.NoError(t, c.liveMigrate(t, id, &b))
			c.becomes(t, id, "ACTIVE")
			require.Empty(t, c.newestAction(t, id).Message)
			on(t, b)
		}},
		{"migration with ports", cuts.portMove, func(t *testing.T) {
			require.NoError(t, servers.Migrate(t.Context(), c.compute(t, ""), id).ExtractErr())
			c.becomes(t, id, "VERIFY_RESIZE")
			on(t, a)
		}},
		{"revert with ports", cuts.portMove, func(t *testing.T) {
			c.revert(t, id)
			on(t, b)
		}},
		{"shelve with ports", cuts.portShelve, func(t *testing.T) {
			c.shelve(t, id)
			on(t)
		}},
		{"unshelve with ports", cuts.portUnshelve, func(t *testing.T) {
			c.unshelveTo(t, a, id)
			c.becomes(t, id, "ACTIVE")
			on(t, a)
		}},
		{"delete with ports", cuts.portDelete, func(t *testing.T) {
			c.delete(t, id)
			require.Equal(t, 1, c.portsOf(t, user, lan.ID), "its user's")
			c.nothingIsLeft(t)
		}},
	}
	points, lives := make([][]string, len(life)), 0
	for i, step := range life {
		points[i] = cutsOfAll(step.operation, step.activities)
		lives = max(lives, len(points[i]))
	}
	for n := range lives {
		t.Run(fmt.Sprintf("life %d", n+1), func(t *testing.T) {
			for i, step := range life {
				if n < len(points[i]) {
					point := points[i][n]
					t.Log(step.operation, "is cut at", point)
					c.arm(t, point)
				}
				step.do(t)
			}
		})
	}
	for _, point := range cutsOfAll("create with ports that is undone", cuts.portUndo) {
		t.Run("create that is undone/"+point, func(t *testing.T) {
			held := c.hold(t, "port.Look"+before)
			id := c.createIdle(t, encrypted, func(o *servers.CreateOpts) { o.Networks = []servers.Network{{UUID: lan.ID}, {Port: brought.ID}} })
			held.waits(t, c.progress(id))
			c.arm(t, point)
			c.cancelOperation(t, id)
			held.release()
			c.becomes(t, id, "ERROR")
			require.Equal(t, 1, c.portsOf(t, user, lan.ID), "its user's")
			free, err := ports.Get(t.Context(), user, brought.ID).Extract()
			require.NoError(t, err)
			require.Empty(t, free.DeviceID)
			c.delete(t, id)
			require.Empty(t, c.audit(t).Findings)
		})
	}
}
