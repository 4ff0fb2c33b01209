package main

import (
	"fmt"
	"net/netip"

	"github.com/google/uuid"

	"strongroom/activities/port"
	"strongroom/activities/port/local"
)

// LocalNetworkConfig is a network of networks.backend local, as the configuration has it.
type LocalNetworkConfig struct {
	UUID     string   `koanf:"uuid"`
	Name     string   `koanf:"name"`
	Projects []string `koanf:"projects"` // ids of those that have it; none: all
	Hosts    []string `koanf:"hosts"`    // by name: that have the bridge
	Bridge   string   `koanf:"bridge"`
	CIDR     string   `koanf:"cidr"`
	Gateway  string   `koanf:"gateway"`
	First    string   `koanf:"first"` // and last: the addresses that ports get by themselves; empty: all
	Last     string   `koanf:"last"`
	DNS      []string `koanf:"dns"`
	MTU      int      `koanf:"mtu"` // 0: 1500
}

// localNetworks reads networks.local.
func (cfg *Config) localNetworks() ([]local.Network, error) {
	all := []local.Network{}
	for _, c := range cfg.Networks.Local {
		n, err := c.network()
		if err != nil {
			return nil, fmt.Errorf("networks.local: network %s: %w", c.UUID, err)
		}
		all = append(all, n)
	}
	if err := local.CheckAll(all); err != nil {
		return nil, fmt.Errorf("networks.local: %w", err)
	}
	return all, nil
}

func (c LocalNetworkConfig) network() (local.Network, error) {
	n := local.Network{Name: c.Name, Projects: c.Projects, Hosts: c.Hosts, Bridge: c.Bridge, MTU: c.MTU}
	if n.MTU == 0 {
		n.MTU = 1500
	}
	id, err := uuid.Parse(c.UUID)
	if err != nil {
		return n, err
	}
	n.ID = port.NetworkID{UUID: id}
	if n.Prefix, err = netip.ParsePrefix(c.CIDR); err != nil {
		return n, err
	}
	for _, a := range []struct {
		text string
		to   *netip.Addr
	}{{c.Gateway, &n.Gateway}, {c.First, &n.First}, {c.Last, &n.Last}} {
		if a.text == "" {
			continue
		}
		if *a.to, err = netip.ParseAddr(a.text); err != nil {
			return n, err
		}
	}
	for _, text := range c.DNS {
		server, err := netip.ParseAddr(text)
		if err != nil {
			return n, err
		}
		n.DNS = append(n.DNS, server)
	}
	return n, nil
}
