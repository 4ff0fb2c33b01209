package integration_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/attachinterfaces"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/dns"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/external"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/portsbinding"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/provider"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/rules"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
	"github.com/stretchr/testify/require"

	"strongroom/deploy/await"
	"strongroom/deploy/cloud"
	"strongroom/deploy/cloud/ovn"
	"strongroom/deploy/dev/stack"
)

// networkClouds counts those that had Neutron.
var networkClouds int

// networkCloud gives a cloud whose servers have ports of a real Neutron, on a chassis that is this
// machine. There is one at a time.
func networkCloud(t *testing.T) *testCloud { return networkCloudOf(t, 1) }

// networkCloudOf is the same with so many hosts, each of which is a chassis.
func networkCloudOf(t *testing.T, hosts int) *testCloud {
	t.Helper()
	t.Parallel()
	needRoot(t)
	require.True(t, ovn.Installed(), "deploy/install-packages network")
	c := neutronCloud(t, hosts)
	require.NoError(t, c.real.ShowSwitch(t.Context()))
	require.NoError(t, c.real.ServeMetadata(t.Context(), listeningPort(t, c.MetadataAddr()), c.MetadataSecret()))
	for number := 2; number <= hosts; number++ {
		c.addChassis(t, c.Host(number))
	}
	return c
}

// neutronCloud gives a cloud with so many hosts whose servers have ports of a real Neutron, with what else it needs. There is one at
// a time.
func neutronCloud(t *testing.T, hosts int, needs ...string) *testCloud {
	t.Helper()
	ownClouds.borrow(t, onNeutron, 1)
	networkClouds++
	c, err := startWith("nets"+strconv.Itoa(networkClouds), hosts, slices.Concat([]string{cloud.Neutron}, needs, coreServices),
		"STRONGROOM_NETWORKS__BACKEND=neutron", "STRONGROOM_NETWORKS__VIF_PLUGGING_TIMEOUT=10m") // longer than tests wait: Neutron must tell
	if c != nil {
		t.Cleanup(c.end)
	}
	require.NoError(t, err)
	return c
}

// netnsOf is the name of the network namespace of a host that is not the first.
func netnsOf(h stack.Host) string { return fmt.Sprintf("%s-%d", h.Network(), h.Number) }

// serverPorts gives the ports of a server.
func serverPorts(t *testing.T, client *gophercloud.ServiceClient, server string) []ports.Port {
	t.Helper()
	pages, err := ports.List(client, ports.ListOpts{DeviceID: server}).AllPages(t.Context())
	require.NoError(t, err)
	all, err := ports.ExtractPorts(pages)
	require.NoError(t, err)
	return all
}

func listeningPort(t *testing.T, address string) int {
	t.Helper()
	a, err := netip.ParseAddrPort(address)
	require.NoError(t, err)
	return int(a.Port())
}

// addChassis lets Neutron have a host that is not the first: libvirt there finds a switch of its own.
func (c *testCloud) addChassis(t *testing.T, h stack.Host) {
	t.Helper()
	folder, err := c.real.AddHost(t.Context(), hostName(t, h), netnsOf(h))
	require.NoError(t, err)
	pid, err := os.ReadFile(filepath.Join(filepath.Dir(h.ConfigFile()), "libvirt", "run", "namespace.pid"))
	require.NoError(t, err)
	said, err := exec.CommandContext(t.Context(), "nsenter", "--target", string(pid), "--mount", "--", "mount", "--bind", folder, cloud.MachineSwitch).CombinedOutput()
	require.NoError(t, err, "%s", said)
}

// networking gives a client of Neutron.
func (c *testCloud) networking(t *testing.T, user string) *gophercloud.ServiceClient {
	t.Helper()
	s, err := c.session(user)
	require.NoError(t, err)
	client, err := openstack.NewNetworkV2(s.provider, s.endpoint)
	require.NoError(t, err)
	return client
}

// newLAN makes a network with a subnet.
func newLAN(t *testing.T, client *gophercloud.ServiceClient) *networks.Network {
	t.Helper()
	lan, err := networks.Create(t.Context(), client, networks.CreateOpts{Name: "lan"}).Extract()
	require.NoError(t, err)
	_, err = subnets.Create(t.Context(), client, subnets.CreateOpts{NetworkID: lan.ID, IPVersion: 4, CIDR: "10.1.0.0/24"}).Extract()
	require.NoError(t, err)
	return lan
}

// boundPort is a port, as Neutron's administrator sees it.
type boundPort struct {
	ports.Port
	portsbinding.PortsBindingExt
	dns.PortDNSExt
}

// TestServersHavePortsOfNeutron follows a server with a port that strongroom makes and one that its user
// brings through its life. Its guest gets an address for each, and reaches what Neutron lets it reach.
func TestServersHavePortsOfNeutron(t *testing.T) {
	backends(t, openStack)
	c := networkCloud(t)
	user, admin := c.networking(t, "-demo"), c.networking(t, "")
	lan := newLAN(t, user)
	mine, err := groups.Create(t.Context(), user, groups.CreateOpts{Name: "mine"}).Extract()
	require.NoError(t, err)
	brought, err := ports.Create(t.Context(), user, ports.CreateOpts{NetworkID: lan.ID, Name: "mine", SecurityGroups: &[]string{mine.ID}}).Extract()
	require.NoError(t, err)
	port := func(id string) (p boundPort) {
		t.Helper()
		require.NoError(t, ports.Get(t.Context(), admin, id).ExtractInto(&p))
		return p
	}
	on := func(networks ...servers.Network) func(*servers.CreateOpts) {
		return func(o *servers.CreateOpts) { o.Networks = networks }
	}

	id := c.create(t, encrypted, on(servers.Network{UUID: lan.ID}, servers.Network{Port: brought.ID}))
	s := c.becomes(t, id, "ACTIVE")
	require.Contains(t, c.newestEvents(t, id), "await_network", "the create waited for Neutron")
	require.Len(t, s.Addresses["lan"], 2)
	client := c.compute(t, "-demo")
	pages, err := attachinterfaces.List(client, id).AllPages(t.Context())
	require.NoError(t, err)
	attached, err := attachinterfaces.ExtractInterfaces(pages)
	require.NoError(t, err)
	require.Len(t, attached, 2)
	require.Equal(t, brought.ID, attached[1].PortID)
	own := attached[0].PortID
	name, err := os.Hostname()
	require.NoError(t, err)
	hostname := strings.ToLower(t.Name()) // as create names it
	line := c.serial(t, id)
	said := line.ask("net", "net=")
	for i, a := range attached {
		require.Equal(t, "ACTIVE", a.PortState, "the create waited for it")
		p := port(a.PortID)
		require.Equal(t, []string{id, "compute:nova", name, "ovs"}, []string{p.DeviceID, p.DeviceOwner, p.HostID, p.VIFType})
		require.Equal(t, hostname, p.DNSName)
		require.Contains(t, said, p.MACAddress, "the guest has it")
		c.console(t, id, fmt.Sprintf("TG dhcp if=eth%d ip=%s ", i, p.FixedIPs[0].IPAddress), 1)
	}
	c.reachesItsNetwork(t, user, lan, line)

	// Its security groups are those of its ports, whoever changes them.
	require.Equal(t, []map[string]any{{"name": "default"}, {"name": "mine"}}, c.becomes(t, id, "ACTIVE").SecurityGroups)
	require.NoError(t, ports.Update(t.Context(), user, own, ports.UpdateOpts{SecurityGroups: &[]string{mine.ID}}).Err)
	await.For(t, "Neutron tells of the security group", func() bool {
		return slices.EqualFunc(c.becomes(t, id, "ACTIVE").SecurityGroups, []string{"mine"}, func(g map[string]any, name string) bool { return g["name"] == name })
	})

	// One that lets nothing pass never becomes active, and is not waited for.
	disabled, err := ports.Create(t.Context(), user, ports.CreateOpts{NetworkID: lan.ID, AdminStateUp: new(bool)}).Extract()
	require.NoError(t, err)
	cutOff := c.createIdle(t, smallGuest, on(servers.Network{Port: disabled.ID}))
	c.becomes(t, cutOff, "ACTIVE")
	require.Equal(t, "DOWN", port(disabled.ID).Status)
	c.delete(t, cutOff)
	require.NoError(t, ports.Delete(t.Context(), user, disabled.ID).ExtractErr())

	// A port is one server's.
	_, err = servers.Create(t.Context(), client, servers.CreateOpts{
		Name: "second", FlavorRef: c.flavor(t, encrypted), ImageRef: c.image, Networks: []servers.Network{{Port: brought.ID}},
	}, nil).Extract()
	require.True(t, gophercloud.ResponseCodeIs(err, http.StatusConflict), "%v", err)

	// It keeps them while it is off.
	require.NoError(t, servers.Stop(t.Context(), client, id).ExtractErr())
	c.becomes(t, id, "SHUTOFF")
	require.NoError(t, servers.Start(t.Context(), client, id).ExtractErr())
	c.becomes(t, id, "ACTIVE")
	await.For(t, "both ports are ACTIVE", func() bool { return port(own).Status == "ACTIVE" && port(brought.ID).Status == "ACTIVE" }, c.progress(id), c.guestProgress(id))
	require.Empty(t, c.audit(t).Findings)

	// An address is one port's, which is known before anything is made.
	_, err = servers.Create(t.Context(), client, servers.CreateOpts{
		Name: "third", FlavorRef: c.flavor(t, encrypted), ImageRef: c.image, Networks: []servers.Network{{UUID: lan.ID, FixedIP: brought.FixedIPs[0].IPAddress}},
	}, nil).Extract()
	require.True(t, gophercloud.ResponseCodeIs(err, http.StatusBadRequest), "%v", err)
	require.ErrorContains(t, err, "is already in use on instance "+id)
	require.Equal(t, 2, c.portsOf(t, user, lan.ID))

	c.delete(t, id)
	err = ports.Get(t.Context(), user, own).Err
	require.True(t, gophercloud.ResponseCodeIs(err, http.StatusNotFound), "%v", err)
	left := port(brought.ID)
	require.Equal(t, []string{"", "", "", ""}, []string{left.DeviceID, left.DeviceOwner, left.HostID, left.DNSName})
	require.Equal(t, 1, c.portsOf(t, user, lan.ID))
	c.nothingIsLeft(t)
}

// reachesItsNetwork requires that a guest reaches what else is on its network, as far as security groups let it, and nothing on
// another one, though that has the same addresses.
func (c *testCloud) reachesItsNetwork(t *testing.T, user *gophercloud.ServiceClient, lan *networks.Network, guest *serial) {
	t.Helper()
	web, err := groups.Create(t.Context(), user, groups.CreateOpts{Name: "web"}).Extract()
	require.NoError(t, err)
	open := func(protocol rules.RuleProtocol, port int) *rules.SecGroupRule {
		t.Helper()
		rule, err := rules.Create(t.Context(), user, rules.CreateOpts{
			SecGroupID: web.ID, Direction: rules.DirIngress, EtherType: rules.EtherType4, Protocol: protocol, PortRangeMin: port, PortRangeMax: port,
		}).Extract()
		require.NoError(t, err)
		return rule
	}
	open(rules.ProtocolICMP, 0)
	on := func(network, address string, groups ...string) string {
		t.Helper()
		return c.create(t, smallGuest, func(o *servers.CreateOpts) {
			o.Networks, o.SecurityGroups = []servers.Network{{UUID: network, FixedIP: address}}, groups
		})
	}
	const address, elsewhere = "10.1.0.201", "10.1.0.202"
	other := newLAN(t, user)
	require.NoError(t, subnets.Create(t.Context(), user, subnets.CreateOpts{
		NetworkID: other.ID, IPVersion: 6, CIDR: "fd00::/64", IPv6AddressMode: "slaac", IPv6RAMode: "slaac",
	}).Err)
	neighbour, foreign := on(lan.ID, address, web.Name), on(other.ID, elsewhere)
	for id, has := range map[string]string{neighbour: address, foreign: elsewhere} {
		require.Equal(t, "fixed", addressesOf(c.becomes(t, id, "ACTIVE"))[has])
		c.console(t, id, "TG dhcp if=eth0 ip="+has+" ", 1)
	}
	c.isToldOfIPv6(t, foreign)
	pings := func(to string) bool { return guest.ask("icmp "+to, "TG icmp ") == "err=<nil>" }
	dials := func(to string) bool {
		return strings.Contains(guest.ask("dial "+to, "TG dial "), "hello from "+to+":80")
	}
	becomes := func(want bool) {
		t.Helper()
		await.For(t, fmt.Sprintf("the guest reaches %s: %v", address, want), func() bool { return dials(address) == want })
	}
	require.True(t, pings(address))
	require.False(t, dials(address), "its security group lets nobody in by TCP")
	rule := open(rules.ProtocolTCP, 80)
	becomes(true)
	floating := c.isReachedFromOutside(t, user, neighbour)
	require.NoError(t, rules.Delete(t.Context(), user, rule.ID).ExtractErr())
	becomes(false)
	require.True(t, pings(address))
	require.False(t, pings(elsewhere))
	require.False(t, dials(elsewhere))
	c.delete(t, neighbour)
	free, err := floatingips.Get(t.Context(), user, floating).Extract()
	require.NoError(t, err)
	require.Empty(t, free.PortID, "the floating address stays its user's")
	c.delete(t, foreign)
}

// addressesOf gives the kinds of a server's addresses.
func addressesOf(s *servers.Server) map[string]any {
	kinds := map[string]any{}
	for _, network := range s.Addresses {
		for _, a := range network.([]any) {
			one := a.(map[string]any)
			kinds[one["addr"].(string)] = one["OS-EXT-IPS:type"]
		}
	}
	return kinds
}

// isToldOfIPv6 requires that a guest hears, through Neutron's metadata agent, of the address that it makes itself.
func (c *testCloud) isToldOfIPv6(t *testing.T, id string) {
	t.Helper()
	var six string
	for address := range addressesOf(c.becomes(t, id, "ACTIVE")) {
		if strings.Contains(address, ":") {
			six = address
		}
	}
	require.NotEmpty(t, six)
	line := c.serial(t, id)
	said := strings.ReplaceAll(line.ask("fetch http://169.254.169.254/openstack/latest/network_data.json", "TG fetch "), `\"`, `"`)
	require.NoError(t, line.conn.Close())
	require.Contains(t, said, `"type":"ipv4_dhcp"`)
	require.Contains(t, said, `"type":"ipv6_slaac"`)
	require.Contains(t, said, `"ip_address":"`+six+`","netmask":"ffff:ffff:ffff:ffff::","routes":[{"network":"::","netmask":"::","gateway":"fd00::"}]`)
}

// isReachedFromOutside requires that a server has a floating address, at which it answers outside of its network, and gives that's id.
func (c *testCloud) isReachedFromOutside(t *testing.T, user *gophercloud.ServiceClient, id string) string {
	t.Helper()
	const here = "203.0.113.1"
	require.NoError(t, c.real.OpenOutside(t.Context(), netip.MustParsePrefix(here+"/24")))
	admin, outside, no, gateway := c.networking(t, ""), true, false, here
	wan, err := networks.Create(t.Context(), admin, external.CreateOptsExt{External: &outside, CreateOptsBuilder: provider.CreateOptsExt{
		CreateOptsBuilder: networks.CreateOpts{Name: "wan"}, Segments: []provider.Segment{{NetworkType: "flat", PhysicalNetwork: cloud.Outside}},
	}}).Extract()
	require.NoError(t, err)
	require.NoError(t, subnets.Create(t.Context(), admin, subnets.CreateOpts{NetworkID: wan.ID, IPVersion: 4, CIDR: "203.0.113.0/24", GatewayIP: &gateway, EnableDHCP: &no}).Err)
	router, err := routers.Create(t.Context(), user, routers.CreateOpts{GatewayInfo: &routers.GatewayInfo{NetworkID: wan.ID}}).Extract()
	require.NoError(t, err)
	has := serverPorts(t, user, id)
	require.Len(t, has, 1)
	require.NoError(t, routers.AddInterface(t.Context(), user, router.ID, routers.AddInterfaceOpts{SubnetID: has[0].FixedIPs[0].SubnetID}).Err)
	floating, err := floatingips.Create(t.Context(), user, floatingips.CreateOpts{FloatingNetworkID: wan.ID, PortID: has[0].ID}).Extract()
	require.NoError(t, err)
	await.For(t, "Neutron tells of the floating address", func() bool {
		return addressesOf(c.becomes(t, id, "ACTIVE"))[floating.FloatingIP] == "floating"
	})
	await.For(t, "the guest answers at "+floating.FloatingIP, func() bool { return strings.Contains(greetingAt(floating.FloatingIP), "hello from ") }, c.guestProgress(id))
	return floating.ID
}

// greetingAt is what a guest says at an address, "" where none answers.
func greetingAt(address string) string {
	conn, err := net.DialTimeout("tcp4", net.JoinHostPort(address, "80"), 2*time.Second)
	if err != nil {
		return ""
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(2 * time.Second))
	said, _ := bufio.NewReader(conn).ReadString('\n') // it waits for a word then
	return said
}

// bindingsOf gives the hosts to which a port is bound, or prepared to be.
func bindingsOf(t *testing.T, admin *gophercloud.ServiceClient, id string) (hosts []string) {
	t.Helper()
	var said struct {
		Bindings []struct {
			Host string `json:"host"`
		} `json:"bindings"`
	}
	resp, err := admin.Get(t.Context(), admin.ServiceURL("ports", id, "bindings"), &said, nil)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	for _, b := range said.Bindings {
		hosts = append(hosts, b.Host)
	}
	return hosts
}

// TestMovesCarryPorts: a server's ports are bound to the host that it is on, and to no other one, whatever moves it. A TCP
// connection of its guest's, to one that stays, outlives a live migration; that one is told of itself at 169.254.169.254.
func TestMovesCarryPorts(t *testing.T) {
	backends(t, openStack)
	c := networkCloudOf(t, 2)
	a, b := c.Host(1), c.Host(2)
	user, admin := c.networking(t, "-demo"), c.networking(t, "")
	lan := newLAN(t, user)
	brought, err := ports.Create(t.Context(), user, ports.CreateOpts{NetworkID: lan.ID, Name: "mine"}).Extract()
	require.NoError(t, err)
	id := c.on(t, a, func() string {
		return c.create(t, encrypted, func(o *servers.CreateOpts) { o.Networks = []servers.Network{{UUID: lan.ID}, {Port: brought.ID}} })
	})
	peer := c.on(t, a, func() string {
		return c.create(t, smallGuest, func(o *servers.CreateOpts) { o.Networks = []servers.Network{{UUID: lan.ID}} })
	})
	reached := onlyAddress(t, c.becomes(t, peer, "ACTIVE"))
	c.console(t, peer, "TG dhcp if=eth0 ip="+reached+" ", 1)
	var has []string
	var addresses []string
	for _, p := range serverPorts(t, admin, id) {
		has, addresses = append(has, p.ID), append(addresses, p.MACAddress)
	}
	require.Len(t, has, 2)
	follow := func(h stack.Host) {
		t.Helper()
		c.requireOn(t, h, id)
		for _, p := range has {
			require.Equal(t, []string{hostName(t, h)}, bindingsOf(t, admin, p))
			await.For(t, "its host has plugged port "+p, func() bool {
				var is boundPort
				require.NoError(t, ports.Get(t.Context(), admin, p).ExtractInto(&is))
				return is.Status == "ACTIVE" && is.HostID == hostName(t, h) && is.DeviceID == id
			}, c.progress(id), c.hostProgress(h))
		}
		line := c.serial(t, id)
		said := line.ask("net", "net=")
		require.NoError(t, line.conn.Close())
		for _, mac := range addresses {
			require.Contains(t, said, mac)
		}
	}
	follow(a)
	client := c.compute(t, "-demo")

	// A rebuild binds what was unbound meanwhile.
	require.NoError(t, ports.Update(t.Context(), admin, has[0], portsbinding.UpdateOptsExt{UpdateOptsBuilder: ports.UpdateOpts{}, HostID: new(string)}).Err)
	c.rebuild(t, id, c.image, "ACTIVE")
	follow(a)

	require.NoError(t, servers.Migrate(t.Context(), c.compute(t, ""), id).ExtractErr())
	c.becomes(t, id, "VERIFY_RESIZE")
	follow(b)
	require.NoError(t, servers.RevertResize(t.Context(), client, id).ExtractErr())
	c.becomes(t, id, "ACTIVE")
	follow(a)

	// One of them is plugged in while the guest runs, and moves so.
	line := c.serial(t, id)
	require.NoError(t, attachinterfaces.Delete(t.Context(), client, id, brought.ID).ExtractErr())
	c.becomes(t, id, "ACTIVE")
	require.NoError(t, attachinterfaces.Create(t.Context(), client, id, attachinterfaces.CreateOpts{PortID: brought.ID}).Err)
	await.For(t, "the guest has "+brought.MACAddress, func() bool { return strings.Contains(line.ask("net", "net="), brought.MACAddress) }, c.progress(id))
	await.For(t, "the guest has an address and reaches "+reached, func() bool {
		return strings.Contains(line.ask("call "+reached, "TG call "), "hello from "+reached+":80 to ")
	})
	require.NoError(t, line.conn.Close())
	keeps := func(word string) {
		t.Helper()
		line := c.serial(t, id)
		require.Equal(t, `"`+word+`" err=<nil>`, line.ask("say "+word, "TG say "))
		require.NoError(t, line.conn.Close())
	}
	keeps("before")
	hops := []stack.Host{b}
	if full() {
		hops = []stack.Host{b, a, b}
	}
	for _, to := range hops {
		require.NoError(t, c.liveMigrate(t, id, &to))
		c.becomes(t, id, "ACTIVE")
		require.Empty(t, c.newestAction(t, id).Message)
		follow(to)
		keeps("on-" + hostName(t, to))
	}
	line = c.serial(t, peer) // on the host whose switch has Neutron's metadata agent
	require.Contains(t, line.ask("fetch http://169.254.169.254/openstack/latest/meta_data.json", "TG fetch "), peer)
	require.NoError(t, line.conn.Close())
	c.delete(t, peer)

	require.NoError(t, servers.Shelve(t.Context(), client, id).ExtractErr())
	c.becomes(t, id, "SHELVED_OFFLOADED")
	for _, p := range has {
		require.NotContains(t, bindingsOf(t, admin, p), hostName(t, b))
		var is boundPort
		require.NoError(t, ports.Get(t.Context(), admin, p).ExtractInto(&is))
		require.Equal(t, []string{id, "", "unbound"}, []string{is.DeviceID, is.HostID, is.VIFType})
	}
	require.Empty(t, c.audit(t).Findings)
	c.unshelveTo(t, b, id)
	c.becomes(t, id, "ACTIVE")
	follow(b)

	c.rescue(t, id, "")
	follow(b)
	c.unrescue(t, id)
	follow(b)
	require.NoError(t, servers.Migrate(t.Context(), c.compute(t, ""), id).ExtractErr())
	c.becomes(t, id, "VERIFY_RESIZE")
	c.confirm(t, id)
	follow(a)

	if full() {
		require.NoError(t, c.liveMigrate(t, id, &b))
		c.becomes(t, id, "ACTIVE")
		follow(b)
		c.powerOff(t, b)
		c.forceDown(t, b, true)
		c.evacuate(t, id, "2.29")
		c.becomes(t, id, "ACTIVE")
		follow(a)
		c.powerOn(t, b)
		c.forceDown(t, b, false)
		c.hasNothingSoon(t, b, id)
	}
	c.delete(t, id)
	require.Equal(t, 1, c.portsOf(t, user, lan.ID))
	c.nothingIsLeft(t)
}

// portsOf counts the ports that servers can have on a network.
func (c *testCloud) portsOf(t *testing.T, client *gophercloud.ServiceClient, network string) int {
	t.Helper()
	pages, err := ports.List(client, ports.ListOpts{NetworkID: network}).AllPages(context.Background())
	require.NoError(t, err)
	all, err := ports.ExtractPorts(pages)
	require.NoError(t, err)
	n := 0
	for _, p := range all {
		if p.DeviceOwner == "" || p.DeviceOwner == "compute:nova" {
			n++
		}
	}
	return n
}
