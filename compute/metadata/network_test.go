package metadata_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/compute/metadata"
)

// A guest finds its ports by their hardware addresses, and is told the MTU of each. EC2's documents have the first
// address.
func TestNetworkDataOfPorts(t *testing.T) {
	t.Parallel()
	id := compute.PortID{UUID: uuid.MustParse("6a2b7a9e-6d5b-4a9b-9d4b-0c7a2f4e5d10")}
	s := metadata.Server{Networks: []compute.Network{
		{UUID: "of a host", MAC: "52:54:00:00:00:01"},
		{UUID: "lan", MAC: "fa:16:3e:00:00:01", Port: &compute.Port{
			ID: &id, Type: compute.VIFOpenVSwitch, MTU: 1442, Addresses: []compute.PortAddress{{IP: "fd00::7"}, {IP: "10.1.0.7"}},
		}},
	}}
	got, err := s.Lookup("/openstack/latest/network_data.json", bytes.NewReader(nil))
	require.NoError(t, err)
	require.JSONEq(t, `{
		"links": [
			{"id": "interface0", "type": "bridge", "ethernet_mac_address": "52:54:00:00:00:01"},
			{"id": "tap6a2b7a9e-6d", "type": "ovs", "ethernet_mac_address": "fa:16:3e:00:00:01", "vif_id": "6a2b7a9e-6d5b-4a9b-9d4b-0c7a2f4e5d10", "mtu": 1442}
		],
		"networks": [
			{"id": "network0", "type": "ipv4_dhcp", "link": "interface0", "network_id": "of a host"},
			{"id": "network1", "type": "ipv4_dhcp", "link": "tap6a2b7a9e-6d", "network_id": "lan"}
		],
		"services": []
	}`, string(got.Body))
	got, err = s.Lookup("/latest/meta-data/local-ipv4", bytes.NewReader(nil))
	require.NoError(t, err)
	require.Equal(t, "10.1.0.7", string(got.Body))
}

// A guest is told its address in a subnet without DHCP, with its routes and name servers, beside those that it asks for.
func TestNetworkDataWithoutDHCP(t *testing.T) {
	t.Parallel()
	id, bare, other := compute.PortID{UUID: uuid.MustParse("6a2b7a9e-6d5b-4a9b-9d4b-0c7a2f4e5d10")}, compute.SubnetID{UUID: uuid.New()}, compute.SubnetID{UUID: uuid.New()}
	six := compute.SubnetID{UUID: uuid.New()}
	port := &compute.Port{
		ID: &id, Type: compute.VIFOpenVSwitch, Addresses: []compute.PortAddress{{Subnet: bare, IP: "10.1.0.7"}, {Subnet: six, IP: "fd00::7"}},
		Static: []compute.ToldSubnet{{
			ID: bare, Prefix: netip.MustParsePrefix("10.1.0.0/22"), Gateway: netip.MustParseAddr("10.1.0.1"), DNS: []netip.Addr{netip.MustParseAddr("192.0.2.53")},
			Routes: []compute.ToldRoute{{To: netip.MustParsePrefix("192.0.2.0/24"), Via: netip.MustParseAddr("10.1.0.9")}},
		}, {ID: six, Prefix: netip.MustParsePrefix("fd00::/64"), Gateway: netip.MustParseAddr("fd00::1")}},
	}
	s := metadata.Server{Networks: []compute.Network{{UUID: "lan", MAC: "fa:16:3e:00:00:01", Port: port}}}
	told := `{
		"links": [{"id": "tap6a2b7a9e-6d", "type": "ovs", "ethernet_mac_address": "fa:16:3e:00:00:01", "vif_id": "6a2b7a9e-6d5b-4a9b-9d4b-0c7a2f4e5d10"}],
		"networks": [%s
			{"id": "network%d", "type": "ipv4", "link": "tap6a2b7a9e-6d", "network_id": "lan", "ip_address": "10.1.0.7", "netmask": "255.255.252.0",
			"routes": [{"network": "0.0.0.0", "netmask": "0.0.0.0", "gateway": "10.1.0.1"}, {"network": "192.0.2.0", "netmask": "255.255.255.0", "gateway": "10.1.0.9"}],
			"services": [{"type": "dns", "address": "192.0.2.53"}]},
			{"id": "network%d", "type": "ipv6", "link": "tap6a2b7a9e-6d", "network_id": "lan", "ip_address": "fd00::7", "netmask": "ffff:ffff:ffff:ffff::",
			"routes": [{"network": "::", "netmask": "::", "gateway": "fd00::1"}], "services": []}
		],
		"services": [{"type": "dns", "address": "192.0.2.53"}]
	}`
	requireSays := func(want string) {
		t.Helper()
		got, err := s.Lookup("/openstack/latest/network_data.json", bytes.NewReader(nil))
		require.NoError(t, err)
		require.JSONEq(t, want, string(got.Body))
	}
	requireSays(fmt.Sprintf(told, "", 0, 1))
	port.Addresses = append(port.Addresses, compute.PortAddress{Subnet: other, IP: "10.9.0.7"})
	requireSays(fmt.Sprintf(told, `{"id": "network0", "type": "ipv4_dhcp", "link": "tap6a2b7a9e-6d", "network_id": "lan"},`, 1, 2))
}

// A guest is told how it gets its address in a subnet of IPv6, in Nova's words, which are cloud-init's.
func TestNetworkDataOfIPv6(t *testing.T) {
	t.Parallel()
	const address = `"ip_address": "fd00::7", "netmask": "ffff:ffff:ffff:ffff::", "services": [{"type": "dns", "address": "fd00::53"}],
		"routes": [{"network": "::", "netmask": "::", "gateway": "fd00::1"}, {"network": "fd01::", "netmask": "ffff:ffff::", "gateway": "fd00::9"}]`
	for mode, want := range map[compute.AddressMode]struct{ kind, says string }{
		compute.AddressStatic:    {"ipv6", ", " + address},
		compute.AddressSLAAC:     {"ipv6_slaac", ", " + address},
		compute.AddressStateful:  {"ipv6_dhcpv6-stateful", ", " + address},
		compute.AddressStateless: {"ipv6_dhcpv6-stateless", ", " + address},
		compute.AddressDHCP:      {"ipv6_dhcp", ""},
	} {
		id, six, four := compute.PortID{UUID: uuid.MustParse("6a2b7a9e-6d5b-4a9b-9d4b-0c7a2f4e5d10")}, compute.SubnetID{UUID: uuid.New()}, compute.SubnetID{UUID: uuid.New()}
		port := &compute.Port{
			ID: &id, Type: compute.VIFOpenVSwitch, Addresses: []compute.PortAddress{{Subnet: six, IP: "fd00::7"}},
			Told: []compute.ToldSubnet{{
				ID: six, Mode: mode, Prefix: netip.MustParsePrefix("fd00::/64"), Gateway: netip.MustParseAddr("fd00::1"), DNS: []netip.Addr{netip.MustParseAddr("fd00::53")},
				Routes: []compute.ToldRoute{{To: netip.MustParsePrefix("fd01::/32"), Via: netip.MustParseAddr("fd00::9")}},
			}},
		}
		s := metadata.Server{Networks: []compute.Network{{UUID: "lan", MAC: "fa:16:3e:00:00:01", Port: port}}}
		networks := func() string {
			t.Helper()
			got, err := s.Lookup("/openstack/latest/network_data.json", bytes.NewReader(nil))
			require.NoError(t, err)
			var said struct {
				Networks json.RawMessage `json:"networks"`
			}
			require.NoError(t, json.Unmarshal(got.Body, &said))
			return string(said.Networks)
		}
		one := `{"id": "network%d", "type": "` + want.kind + `", "link": "tap6a2b7a9e-6d", "network_id": "lan"` + want.says + `}`
		require.JSONEq(t, fmt.Sprintf("["+one+"]", 0), networks(), "with IPv6 alone")
		port.Addresses = append(port.Addresses, compute.PortAddress{Subnet: four, IP: "10.1.0.7"})
		require.JSONEq(t, fmt.Sprintf(`[{"id": "network0", "type": "ipv4_dhcp", "link": "tap6a2b7a9e-6d", "network_id": "lan"}, `+one+"]", 1), networks())
	}
}

// The ports of a trunk are VLANs of its parent, as cloud-init makes them: by the parent's link and a hardware address.
func TestNetworkDataOfATrunk(t *testing.T) {
	t.Parallel()
	id := compute.PortID{UUID: uuid.MustParse("6a2b7a9e-6d5b-4a9b-9d4b-0c7a2f4e5d10")}
	sub, other := compute.PortID{UUID: uuid.MustParse("11111111-2222-4333-8444-555555555501")}, compute.PortID{UUID: uuid.MustParse("22222222-2222-4333-8444-555555555501")}
	bare := compute.SubnetID{UUID: uuid.New()}
	s := metadata.Server{Networks: []compute.Network{{UUID: "lan", MAC: "fa:16:3e:00:00:01", Port: &compute.Port{
		ID: &id, Type: compute.VIFOpenVSwitch, MTU: 1442, Addresses: []compute.PortAddress{{IP: "10.1.0.7", Floating: []string{"203.0.113.7", "203.0.113.8"}}},
		Subports: []compute.Subport{
			{VLAN: 101, ID: sub, Network: "back", MAC: "fa:16:3e:00:00:02", MTU: 1400, Addresses: []compute.PortAddress{{IP: "10.2.0.7"}}},
			{
				VLAN: 102, ID: other, Network: "bare", MAC: "fa:16:3e:00:00:03", Addresses: []compute.PortAddress{{Subnet: bare, IP: "10.3.0.7"}},
				Told: []compute.ToldSubnet{{ID: bare, Prefix: netip.MustParsePrefix("10.3.0.0/24")}},
			},
		},
	}}}}
	got, err := s.Lookup("/openstack/latest/network_data.json", bytes.NewReader(nil))
	require.NoError(t, err)
	require.JSONEq(t, `{
		"links": [
			{"id": "tap6a2b7a9e-6d", "type": "ovs", "ethernet_mac_address": "fa:16:3e:00:00:01", "vif_id": "6a2b7a9e-6d5b-4a9b-9d4b-0c7a2f4e5d10", "mtu": 1442},
			{"id": "tap11111111-22", "type": "vlan", "vlan_id": 101, "vlan_link": "tap6a2b7a9e-6d", "vlan_mac_address": "fa:16:3e:00:00:02",
				"vif_id": "11111111-2222-4333-8444-555555555501", "mtu": 1400},
			{"id": "tap22222222-22", "type": "vlan", "vlan_id": 102, "vlan_link": "tap6a2b7a9e-6d", "vlan_mac_address": "fa:16:3e:00:00:03",
				"vif_id": "22222222-2222-4333-8444-555555555501"}
		],
		"networks": [
			{"id": "network0", "type": "ipv4_dhcp", "link": "tap6a2b7a9e-6d", "network_id": "lan"},
			{"id": "network1", "type": "ipv4_dhcp", "link": "tap11111111-22", "network_id": "back"},
			{"id": "network2", "type": "ipv4", "link": "tap22222222-22", "network_id": "bare", "ip_address": "10.3.0.7", "netmask": "255.255.255.0", "routes": [], "services": []}
		],
		"services": []
	}`, string(got.Body))
	got, err = s.Lookup("/latest/meta-data/public-ipv4", bytes.NewReader(nil))
	require.NoError(t, err)
	require.Equal(t, "203.0.113.7", string(got.Body), "EC2's documents have the first floating address")
}
