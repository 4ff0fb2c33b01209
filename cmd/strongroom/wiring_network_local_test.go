package main

import (
	"net/netip"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/port"
	portlocal "strongroom/activities/port/local"
)

// networks.local names the networks that there are; what cannot be one is refused at the start.
func TestLocalNetworksAreRead(t *testing.T) {
	t.Parallel()
	cfg, err := loadConfig(example)
	require.NoError(t, err)
	got, err := cfg.localNetworks()
	require.NoError(t, err)
	address := netip.MustParseAddr
	require.Equal(t, []portlocal.Network{{
		ID: port.NetworkID{UUID: uuid.MustParse("5a0e4b9d-0c0b-4f57-9c3c-0ab7f3a0d5b1")}, Name: "lan", Projects: []string{}, Hosts: []string{"compute1"}, Bridge: "br-lan",
		MTU: 1500, Prefix: netip.MustParsePrefix("10.20.0.0/24"), Gateway: address("10.20.0.1"),
	}}, got)

	good := LocalNetworkConfig{UUID: uuid.NewString(), Name: "lan", Hosts: []string{"h"}, Bridge: "br", CIDR: "10.0.0.0/24", Gateway: "10.0.0.1", First: "10.0.0.9", Last: "10.0.0.9", DNS: []string{"10.0.0.1"}}
	read := func(all ...LocalNetworkConfig) ([]portlocal.Network, error) {
		c := defaults()
		c.Networks.Backend, c.Networks.Local = "local", all
		s := testServices(t, func(cfg *Config) { cfg.Networks = c.Networks })
		_, err := s.networks()
		if err != nil {
			return nil, err
		}
		return s.localNetworks()
	}
	got, err = read(good)
	require.NoError(t, err)
	require.Equal(t, []netip.Addr{address("10.0.0.9"), address("10.0.0.9"), address("10.0.0.1")}, []netip.Addr{got[0].First, got[0].Last, got[0].DNS[0]})
	require.Equal(t, 1500, got[0].MTU)
	for name, spoil := range map[string]func(n *LocalNetworkConfig){
		"uuid":    func(n *LocalNetworkConfig) { n.UUID = "lan" },
		"cidr":    func(n *LocalNetworkConfig) { n.CIDR = "10.0.0.0" },
		"gateway": func(n *LocalNetworkConfig) { n.Gateway = "" },
		"first":   func(n *LocalNetworkConfig) { n.First = "9" },
		"dns":     func(n *LocalNetworkConfig) { n.DNS = []string{"localhost"} },
	} {
		bad := good
		spoil(&bad)
		_, err := read(bad)
		require.ErrorContains(t, err, "networks.local: ", name)
	}
	_, err = read(good, good)
	require.ErrorContains(t, err, "networks.local: ")
}
