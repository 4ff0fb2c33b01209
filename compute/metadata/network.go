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
	MAC  string `json:"ethernet_mac_address,omitempty"`
	Port string `json:"vif_id,omitempty"` // the network service's
	MTU  int    `json:"mtu,omitempty"`    // bytes
	*vlan
}

// vlan is what a guest is told of a link that is a VLAN of another one.
type vlan struct {
	Number int    `json:"vlan_id"`
	Of     string `json:"vlan_link"`
	MAC    string `json:"vlan_mac_address"`
}

type network struct {
	ID        string `json:"id"`
	Type      string `json:"type"`
	Link      string `json:"link"`
	NetworkID string `json:"network_id"`
	*static
}

// static is what a guest is told of an address that it does not get by DHCP, or not by DHCP alone.
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
		if n.PortExists() {
			id = n.Port.ID.TapName()
		}
		out.add(linkOf(id, n), n)
		if n.Port == nil {
			continue
		}
		for _, sub := range n.Port.Subports {
			on := compute.Network{UUID: sub.Network, Port: &compute.Port{ID: &sub.ID, MTU: sub.MTU, Addresses: sub.Addresses, Told: sub.Told}}
			l := linkOf(sub.ID.TapName(), on)
			l.Type, l.vlan = "vlan", &vlan{Number: sub.VLAN, Of: id, MAC: sub.MAC}
			out.add(l, on)
		}
	}
	return out
}

// add adds a link, and how it gets its addresses.
func (d *networkData) add(l link, n compute.Network) {
	d.Links = append(d.Links, l)
	for _, one := range networksOf(n) {
		one.ID, one.Link, one.NetworkID = fmt.Sprintf("network%d", len(d.Networks)), l.ID, n.UUID
		d.Networks = append(d.Networks, one)
		if one.static == nil {
			continue
		}
		for _, dns := range one.Services {
			if !slices.Contains(d.Services, dns) {
				d.Services = append(d.Services, dns)
			}
		}
	}
}

// networksOf gives the ways in which an interface gets its addresses; DHCP gives it all that it has of IPv4.
func networksOf(n compute.Network) (all []network) {
	byDHCP := network{Type: "ipv4_dhcp"}
	if n.Port == nil || len(n.Port.Addresses) == 0 {
		return []network{byDHCP}
	}
	asks, told := false, slices.Concat(n.Port.Static, n.Port.Told)
	for _, a := range n.Port.Addresses {
		ip, err := netip.ParseAddr(a.IP)
		at := slices.IndexFunc(told, func(s compute.ToldSubnet) bool { return s.ID == a.Subnet })
		if err != nil || at < 0 {
			asks = asks || err == nil && ip.Is4()
			continue
		}
		one := networkOf(ip, told[at])
		if one.static != nil || !slices.ContainsFunc(all, func(o network) bool { return o.Type == one.Type }) {
			all = append(all, one)
		}
	}
	if asks || len(all) == 0 {
		all = slices.Insert(all, 0, byDHCP)
	}
	return all
}

// networkOf gives the way in which an address is got in a subnet of which guests are told.
func networkOf(ip netip.Addr, in compute.ToldSubnet) network {
	out, everywhere := network{Type: "ipv4"}, netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	if ip.Is6() {
		out.Type, everywhere = "ipv6", netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	if in.Mode != compute.AddressStatic {
		out.Type += "_" + string(in.Mode)
	}
	if in.Mode == compute.AddressDHCP {
		return out
	}
	out.static = &static{IP: ip, Netmask: maskOf(in.Prefix), Routes: []route{}, Services: []service{}}
	if in.Gateway.IsValid() {
		out.Routes = append(out.Routes, routeOf(everywhere, in.Gateway))
	}
	for _, r := range in.Routes {
		out.Routes = append(out.Routes, routeOf(r.To, r.Via))
	}
	for _, dns := range in.DNS {
		out.static.Services = append(out.static.Services, service{"dns", dns})
	}
	return out
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
	if !n.PortExists() {
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

// floating is the first address at which the server is reached from an external network, "" for none.
func (s Server) floating() string {
	for _, n := range s.Networks {
		if n.Port == nil {
			continue
		}
		for _, a := range n.Port.Addresses {
			if len(a.Floating) > 0 {
				return a.Floating[0]
			}
		}
	}
	return ""
}
