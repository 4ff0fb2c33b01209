package metadata_test

import (
	"bytes"
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
