package metadata

import (
	"fmt"
	"net/netip"

	"strongroom/compute"
)

// networkData is network_data.json: the interfaces, each of which gets its
// address from its network.
type networkData struct {
	Links    []link    `json:"links"`
	Networks []network `json:"networks"`
	Services []string  `json:"services"` // name servers: the networks name them
}

type link struct {
	ID   string `json:"id"`
	Type string `json:"type"`
	MAC  string `json:"ethernet_mac_address"`
	Port string `json:"vif_id,omitempty"` // the network service's
	MTU  int    `json:"mtu,omitempty"`    // bytes
}

type network struct {
	ID        string `json:"id"`
	Type      string `json:"type"`
	Link      string `json:"link"`
	NetworkID string `json:"network_id"`
}

func (s Server) networkData() networkData {
	out := networkData{Links: []link{}, Networks: []network{}, Services: []string{}}
	for i, n := range s.Networks {
		id := fmt.Sprintf("interface%d", i)
		if n.HasPort() {
			id = n.Port.ID.TapName()
		}
		out.Links = append(out.Links, linkOf(id, n))
		out.Networks = append(out.Networks, network{ID: fmt.Sprintf("network%d", i), Type: "ipv4_dhcp", Link: id, NetworkID: n.UUID})
	}
	return out
}

// linkOf is an interface as Nova tells of it: that of a port by the port's id.
func linkOf(id string, n compute.Network) link {
	out := link{ID: id, Type: "bridge", MAC: n.MAC}
	if !n.HasPort() {
		return out
	}
	out.Port, out.MTU = n.Port.ID.String(), n.Port.MTU
	if n.Port.Type != "" {
		out.Type = string(n.Port.Type)
	}
	return out
}

// address is the server's first IPv4 address that a network service knows, "" for none.
func (s Server) address() string {
	for _, n := range s.Networks {
		if n.Port == nil {
			continue
		}
		for _, a := range n.Port.Addresses {
			if ip, err := netip.ParseAddr(a.IP); err == nil && ip.Is4() {
				return a.IP
			}
		}
	}
	return ""
}
