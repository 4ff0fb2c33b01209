package integration_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
	"github.com/stretchr/testify/require"

	"strongroom/deploy/guest/packet"
)

// TestProjectsOfOneMachineHaveNetworks: servers that say nothing of networks are on their project's; they have
// addresses by DHCP and reach each other (ping, TCP), and no other project's. At 169.254.169.254 each is told of itself. What they
// send with other addresses than their own is dropped.
func TestProjectsOfOneMachineHaveNetworks(t *testing.T) {
	backends(t, local) // it is about strongroom dev
	c := ownCloud(t)
	client := c.networking(t, "-demo")
	pages, err := networks.List(client, networks.ListOpts{}).AllPages(t.Context())
	require.NoError(t, err)
	lans, err := networks.ExtractNetworks(pages)
	require.NoError(t, err)
	require.Len(t, lans, 1, "other projects' are not seen")
	auto := func(o *servers.CreateOpts) { o.Networks = "auto" }
	one := c.create(t, smallGuest, auto)
	two := c.create(t, smallLocked, func(o *servers.CreateOpts) { o.Networks = []servers.Network{{UUID: lans[0].ID}} })
	theirs := c.createAs(t, "-alt", smallGuest, auto)
	first, second := onlyAddress(t, c.becomes(t, one, "ACTIVE")), onlyAddress(t, c.becomes(t, two, "ACTIVE"))
	foreign := onlyAddress(t, c.settledAs(t, "-alt", theirs))
	for id, address := range map[string]string{one: first, two: second, theirs: foreign} {
		c.console(t, id, "TG dhcp if=eth0 ip="+address+" ", 1)
	}

	mine, other, stranger := c.serial(t, one), c.serial(t, two), c.serial(t, theirs)
	require.Equal(t, "err=<nil>", mine.ask("icmp "+second, "TG icmp "))
	require.Contains(t, mine.ask("dial "+second, "TG dial "), "hello from "+second+":80 to "+first+":")
	require.NotEqual(t, "err=<nil>", mine.ask("icmp "+foreign, "TG icmp "))
	require.NotContains(t, mine.ask("dial "+foreign, "TG dial "), "hello")
	require.NotContains(t, stranger.ask("dial "+first, "TG dial "), "hello")

	// Each is told of itself, and of no other one; its firmware says that there is somebody to ask.
	require.Equal(t, "OpenStack Compute", strings.TrimSpace(mine.cat("/sys/class/dmi/id/product_name")))
	for line, id := range map[*serial]string{mine: one, other: two, stranger: theirs} {
		said := line.ask("fetch http://169.254.169.254/openstack/latest/meta_data.json", "TG fetch ")
		require.Contains(t, said, id)
		require.Equal(t, id == two, strings.Contains(said, `\"encrypted\": \"True\"`) || strings.Contains(said, `\"encrypted\":\"True\"`), "EE-32: %s", said)
	}

	// The guest's own address passes, whoever makes up the packet; one that nobody has does not.
	hears := func(command, want string) {
		t.Helper()
		verb, _, _ := strings.Cut(command, " ")
		require.Contains(t, mine.ask(command, "TG "+verb+" "), "err=<nil>")
		require.Equal(t, want, other.expect("TG heard "))
	}
	hears("datagram "+second+" before", `from=`+first+` "before"`)
	hears("spoof "+first+" "+second+" own", `from=`+first+` "own"`)
	nobodys := netip.MustParseAddr(second).As4()
	nobodys[3] = 250
	for _, spoofed := range []string{netip.AddrFrom4(nobodys).String(), foreign} {
		require.Contains(t, mine.ask("spoof "+spoofed+" "+second+" spoofed", "TG spoof "), "err=<nil>")
	}
	hears("datagram "+second+" after", `from=`+first+` "after"`)
	c.dropsFrames(t, client, serverPorts(t, client, one)[0], serverPorts(t, client, two)[0], mine, other)

	has := serverPorts(t, client, one)
	require.Len(t, has, 1)
	require.Equal(t, first, has[0].FixedIPs[0].IPAddress)
	require.Equal(t, "ACTIVE", has[0].Status)
	_, err = servers.Create(t.Context(), c.compute(t, "-alt"), servers.CreateOpts{
		Name: "on-a-foreign-network", FlavorRef: c.flavor(t, smallGuest), ImageRef: c.image, Networks: []servers.Network{{UUID: lans[0].ID}},
	}, nil).Extract()
	require.True(t, gophercloud.ResponseCodeIs(err, http.StatusBadRequest), "%v", err)

	// The standard client has to name no network.
	openstack := c.python(t, "-demo")
	made := openstack.show("server", "create", "by-the-client", "--flavor", c.flavor(t, smallGuest), "--image", c.idler, "--wait")
	require.Contains(t, fmt.Sprint(made["addresses"]), lans[0].Name)
	require.Len(t, openstack.list("port", "list", "--server", "by-the-client"), 1)
	openstack.run("server", "delete", "by-the-client", "--wait")

	// A server keeps its address while it is off.
	require.NoError(t, servers.Stop(t.Context(), c.compute(t, "-demo"), one).ExtractErr())
	c.becomes(t, one, "SHUTOFF")
	require.NoError(t, servers.Start(t.Context(), c.compute(t, "-demo"), one).ExtractErr())
	require.Equal(t, first, onlyAddress(t, c.becomes(t, one, "ACTIVE")))
	c.console(t, one, "TG dhcp if=eth0 ip="+first+" ", 2)

	c.delete(t, one)
	require.Empty(t, serverPorts(t, client, one))
	c.delete(t, two)
	require.NoError(t, servers.Delete(t.Context(), c.compute(t, "-alt"), theirs).ExtractErr())
	c.goneAs(t, "-alt", theirs)
	c.nothingIsLeft(t)
}

// dropsFrames sees that what a guest sends with another MAC address than its own does not arrive, nor what it claims of others'
// addresses by ARP.
func (c *testCloud) dropsFrames(t *testing.T, client *gophercloud.ServiceClient, from, to ports.Port, mine, other *serial) {
	t.Helper()
	subnet, err := subnets.Get(t.Context(), client, from.FixedIPs[0].SubnetID).Extract()
	require.NoError(t, err)
	mac := func(text string) []byte {
		t.Helper()
		parsed, err := net.ParseMAC(text)
		require.NoError(t, err)
		return parsed
	}
	ip := func(text string) []byte {
		t.Helper()
		a := netip.MustParseAddr(text).As4()
		return a[:]
	}
	own, its := mac(from.MACAddress), mac(to.MACAddress)
	mines, others := ip(from.FixedIPs[0].IPAddress), ip(to.FixedIPs[0].IPAddress)
	send := func(frame ...[]byte) {
		t.Helper()
		require.Equal(t, "err=<nil>", mine.ask("frame eth0 "+hex.EncodeToString(slices.Concat(frame...)), "TG frame "))
	}
	datagram := func(source []byte, text string) {
		t.Helper()
		send(its, source, []byte{8, 0}, packet.Datagram(mines, others, 7777, 7777, []byte(text)))
	}
	reply := func(sender, address []byte) { // of ARP
		t.Helper()
		send(its, own, []byte{8, 6, 0, 1, 8, 0, 6, 4, 0, 2}, sender, address, its, others)
	}
	heard := func(text string) {
		t.Helper()
		require.Equal(t, `from=`+from.FixedIPs[0].IPAddress+` "`+text+`"`, other.expect("TG heard "))
	}
	neighbours := func() string { return other.ask("cat /proc/net/arp", "TG cat ") }
	datagram(own, "framed")
	heard("framed")
	reply(own, mines)
	require.Contains(t, neighbours(), from.MACAddress)

	nobodys := slices.Clone(own)
	nobodys[5] ^= 0x80
	datagram(nobodys, "spoofed")
	reply(own, ip(subnet.GatewayIP))
	reply(nobodys, mines)
	datagram(own, "framed again")
	heard("framed again")
	table := neighbours()
	require.NotContains(t, table, net.HardwareAddr(nobodys).String())
	require.Equal(t, 1, strings.Count(table, from.MACAddress), "it has its own address alone: %s", table)
}

// They are enough for the tiny guest.
var (
	smallGuest  = flavorSpec{"e2e-small-guest", 192, 1, 0, 0, nil}
	smallLocked = flavorSpec{"e2e-small-locked", 192, 1, 0, 0, map[string]string{"hw:ephemeral_encryption": "true"}}
)

// createAs is create for another user.
func (c *testCloud) createAs(t *testing.T, user string, f flavorSpec, change func(*servers.CreateOpts)) string {
	t.Helper()
	client := c.asking(t, user)
	opts := servers.CreateOpts{Name: "another-project", FlavorRef: c.flavor(t, f), ImageRef: c.image}
	change(&opts)
	s, err := servers.Create(t.Context(), client, opts, nil).Extract()
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = servers.Delete(context.Background(), client, s.ID).ExtractErr()
		c.goneAs(t, user, s.ID)
	})
	return s.ID
}

// onlyAddress is the one address of a server.
func onlyAddress(t *testing.T, s *servers.Server) string {
	t.Helper()
	require.Equal(t, "ACTIVE", s.Status, "fault: %s", s.Fault.Message)
	require.Len(t, s.Addresses, 1)
	for _, network := range s.Addresses {
		list, ok := network.([]any)
		require.True(t, ok)
		require.Len(t, list, 1)
		entry, ok := list[0].(map[string]any)
		require.True(t, ok)
		address, ok := entry["addr"].(string)
		require.True(t, ok)
		return address
	}
	return ""
}
