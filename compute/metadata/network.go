package metadata

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	"strongroom/compute"
)

// networkData is network_data.json: the interfaces, each of which gets its
// address from its network, or is told it where that has no DHCP.
type networkData struct {
	Links    []link    `json:"links"`
	Networks []network `json:"networks"`
	Services []service `json:"services"` // name servers of networks without DHCP: the others tell theirs
}

type service struct {
	Type    string     `json:"type"`
	Address netip.Addr `json:"address"`
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
	*static
}

// static is what a guest is told of an address that it does not get by DHCP.
type static struct {
	IP       netip.Addr `json:"ip_address"`
	Netmask  string     `json:"netmask"`
	Routes   []route    `json:"routes"`
	Services []service  `json:"services"`
}

type route struct {
	Network string     `json:"network"`
	Netmask string     `json:"netmask"`
	Gateway netip.Addr `json:"gateway"`
}

func (s Server) networkData() networkData {
	out := networkData{Links: []link{}, Networks: []network{}, Services: []service{}}
	for i, n := range s.Networks {
		id := fmt.Sprintf("interface%d", i)
		if n.HasPort() {
			id = n.Port.ID.TapName()
		}
		out.Links = append(out.Links, linkOf(id, n))
		told, byDHCP := staticOf(n)
		if byDHCP {
			out.Networks = append(out.Networks, network{ID: fmt.Sprintf("network%d", len(out.Networks)), Type: "ipv4_dhcp", Link: id, NetworkID: n.UUID})
		}
		for _, one := range told {
			kind := "ipv4"
			if one.IP.Is6() {
				kind = "ipv6"
			}
			out.Networks = append(out.Networks, network{ID: fmt.Sprintf("network%d", len(out.Networks)), Type: kind, Link: id, NetworkID: n.UUID, static: &one})
			for _, dns := range one.Services {
				if !slices.Contains(out.Services, dns) {
					out.Services = append(out.Services, dns)
				}
			}
		}
	}
	return out
}

// staticOf gives the addresses of an interface that are in subnets without DHCP, and whether it asks for another one.
func staticOf(n compute.Network) (all []static, byDHCP bool) {
	if n.Port == nil || len(n.Port.Addresses) == 0 {
		return nil, true
	}
	for _, a := range n.Port.Addresses {
		ip, err := netip.ParseAddr(a.IP)
		at := slices.IndexFunc(n.Port.Static, func(s compute.StaticSubnet) bool { return s.ID == a.Subnet })
		if err != nil || at < 0 {
			byDHCP = byDHCP || err == nil && ip.Is4()
			continue
		}
		in := n.Port.Static[at]
		one := static{IP: ip, Netmask: maskOf(in.Prefix), Routes: []route{}, Services: []service{}}
		if in.Gateway.IsValid() {
			everywhere := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
			if ip.Is6() {
				everywhere = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
			}
			one.Routes = append(one.Routes, routeOf(everywhere, in.Gateway))
		}
		for _, r := range in.Routes {
			one.Routes = append(one.Routes, routeOf(r.To, r.Via))
		}
		for _, dns := range in.DNS {
			one.Services = append(one.Services, service{"dns", dns})
		}
		all = append(all, one)
	}
	return all, byDHCP || len(all) == 0
}

func routeOf(to netip.Prefix, via netip.Addr) route {
	return route{Network: to.Addr().String(), Netmask: maskOf(to), Gateway: via}
}

// maskOf is a prefix's length as a mask.
func maskOf(p netip.Prefix) string {
	return net.IP(net.CIDRMask(p.Bits(), p.Addr().BitLen())).String()
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
