package metadata_test

import (
	"bytes"
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
		Static: []compute.StaticSubnet{{
			ID: bare, Prefix: netip.MustParsePrefix("10.1.0.0/22"), Gateway: netip.MustParseAddr("10.1.0.1"), DNS: []netip.Addr{netip.MustParseAddr("192.0.2.53")},
			Routes: []compute.StaticRoute{{To: netip.MustParsePrefix("192.0.2.0/24"), Via: netip.MustParseAddr("10.1.0.9")}},
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
