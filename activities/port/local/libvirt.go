package local

import (
	"libvirt.org/go/libvirtxml"
)

// LibvirtXML is the network for a libvirtd that is to have it: its bridge behind network address translation, with
// dnsmasq that gives each address to its port. libvirt lets nothing in from other networks.
func (n Network) LibvirtXML(name string) (string, error) {
	dhcp := &libvirtxml.NetworkDHCP{}
	for _, a := range n.Addresses() {
		dhcp.Hosts = append(dhcp.Hosts, libvirtxml.NetworkDHCPHost{MAC: MAC(a), IP: a.String()})
	}
	document := libvirtxml.Network{
		Name: name, UUID: n.ID.String(),
		Forward: &libvirtxml.NetworkForward{Mode: "nat"},
		Bridge:  &libvirtxml.NetworkBridge{Name: n.Bridge, STP: "off", Delay: "0"},
		MTU:     &libvirtxml.NetworkMTU{Size: uint(n.MTU)},
		IPs:     []libvirtxml.NetworkIP{{Address: n.Gateway.String(), Prefix: uint(n.Prefix.Bits()), DHCP: dhcp}},
	}
	return document.Marshal()
}
