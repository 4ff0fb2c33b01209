package integration_test

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/attachinterfaces"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/rules"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/stretchr/testify/require"

	"strongroom/deploy/await"
	"strongroom/deploy/cloud"
)

// TestServersOnLinuxBridges follows a server whose ports Neutron binds to Linux bridges, with Neutron's own agents on its host:
// they wire what strongroom plugs, by the names that they expect, give the guest its addresses and filter what reaches it.
func TestServersOnLinuxBridges(t *testing.T) {
	onDemand(t, openStack)
	t.Parallel()
	needRoot(t)
	require.True(t, cloud.BridgesInstalled(), "deploy/install-packages network linuxbridge")
	c := neutronCloud(t, 2, cloud.Broker)
	h := c.Host(2)
	require.NoError(t, c.real.AddBridgeHost(t.Context(), hostName(t, h), netnsOf(h)))

	user, admin := c.networking(t, "-demo"), c.networking(t, "")
	lan := newLAN(t, user)
	brought, err := ports.Create(t.Context(), user, ports.CreateOpts{NetworkID: lan.ID, Name: "mine"}).Extract()
	require.NoError(t, err)
	ping, err := groups.Create(t.Context(), user, groups.CreateOpts{Name: "ping"}).Extract()
	require.NoError(t, err)
	open := func(protocol rules.RuleProtocol, port int) {
		t.Helper()
		require.NoError(t, rules.Create(t.Context(), user, rules.CreateOpts{
			SecGroupID: ping.ID, Direction: rules.DirIngress, EtherType: rules.EtherType4, Protocol: protocol, PortRangeMin: port, PortRangeMax: port,
		}).Err)
	}
	open(rules.ProtocolICMP, 0)
	on := func(f flavorSpec, networks ...servers.Network) string {
		t.Helper()
		id := c.on(t, h, func() string {
			return c.create(t, f, func(o *servers.CreateOpts) { o.Networks, o.SecurityGroups = networks, []string{ping.Name} })
		})
		c.becomes(t, id, "ACTIVE")
		require.Contains(t, c.newestEvents(t, id), "await_network", "the create waited for Neutron's agent")
		return id
	}
	id := on(encrypted, servers.Network{UUID: lan.ID}, servers.Network{Port: brought.ID})
	neighbour := on(smallGuest, servers.Network{UUID: lan.ID})

	// The bridge is where the agent looks for it, and so are the taps.
	bridge := "brq" + lan.ID[:11]
	taps := func() []string {
		t.Helper()
		said, err := exec.CommandContext(t.Context(), "ip", "-n", netnsOf(h), "-brief", "link", "show", "master", bridge).CombinedOutput()
		require.NoError(t, err, "%s", said)
		var names []string
		for line := range strings.Lines(string(said)) {
			name, _, _ := strings.Cut(strings.Fields(line)[0], "@")
			names = append(names, name)
		}
		return names
	}
	port := func(id string) (p boundPort) {
		t.Helper()
		require.NoError(t, ports.Get(t.Context(), admin, id).ExtractInto(&p))
		return p
	}
	client := c.compute(t, "-demo")
	attached := func() (all []attachinterfaces.Interface) {
		t.Helper()
		pages, err := attachinterfaces.List(client, id).AllPages(t.Context())
		require.NoError(t, err)
		all, err = attachinterfaces.ExtractInterfaces(pages)
		require.NoError(t, err)
		return all
	}
	isWired := func(i attachinterfaces.Interface) {
		t.Helper()
		require.Equal(t, "ACTIVE", i.PortState)
		p := port(i.PortID)
		require.Equal(t, []string{id, "compute:nova", hostName(t, h), "bridge"}, []string{p.DeviceID, p.DeviceOwner, p.HostID, p.VIFType})
		require.Contains(t, taps(), "tap"+i.PortID[:11])
	}
	all := attached()
	require.Len(t, all, 2)
	require.Equal(t, brought.ID, all[1].PortID)
	line := c.serial(t, id)
	for n, i := range all {
		isWired(i)
		c.console(t, id, fmt.Sprintf("TG dhcp if=eth%d ip=%s ", n, i.FixedIPs[0].IPAddress), 1)
	}

	// It reaches what Neutron lets it reach.
	reached := onlyAddress(t, c.becomes(t, neighbour, "ACTIVE"))
	c.console(t, neighbour, "TG dhcp if=eth0 ip="+reached+" ", 1)
	require.Equal(t, "err=<nil>", line.ask("icmp "+reached, "TG icmp "))
	dials := func() bool {
		return strings.Contains(line.ask("dial "+reached, "TG dial "), "hello from "+reached+":80")
	}
	require.False(t, dials(), "its security group lets nobody in by TCP")
	open(rules.ProtocolTCP, 80)
	await.For(t, "the guest reaches "+reached, dials)

	// An interface can be taken from it and given again as it runs; the others come back with it. The agent looks every two
	// seconds: a tap that goes and comes between two looks is none of its.
	require.NoError(t, attachinterfaces.Delete(t.Context(), client, id, brought.ID).ExtractErr())
	await.For(t, "port "+brought.ID+" is free", func() bool { return len(attached()) == 1 && port(brought.ID).DeviceID == "" }, c.progress(id))
	require.False(t, slices.Contains(taps(), "tap"+brought.ID[:11]))
	c.settled(t, id) // the detachment ends after it has let go of the port
	require.NoError(t, servers.Stop(t.Context(), client, id).ExtractErr())
	c.becomes(t, id, "SHUTOFF")
	own := all[0].PortID
	await.For(t, "port "+own+" is DOWN", func() bool { return port(own).Status == "DOWN" })
	require.NoError(t, servers.Start(t.Context(), client, id).ExtractErr())
	c.becomes(t, id, "ACTIVE")
	await.For(t, "port "+own+" is ACTIVE", func() bool { return port(own).Status == "ACTIVE" })
	require.NoError(t, attachinterfaces.Create(t.Context(), client, id, attachinterfaces.CreateOpts{PortID: brought.ID}).Err)
	await.For(t, "port "+brought.ID+" is ACTIVE", func() bool { return len(attached()) == 2 && port(brought.ID).Status == "ACTIVE" }, c.progress(id))
	for _, i := range attached() {
		isWired(i)
	}
	require.Empty(t, c.audit(t).Findings)

	c.delete(t, neighbour)
	c.delete(t, id)
	require.Equal(t, []string{"", "unbound"}, []string{port(brought.ID).DeviceID, port(brought.ID).VIFType}, "what its user brought stays")
	c.nothingIsLeft(t)
}
