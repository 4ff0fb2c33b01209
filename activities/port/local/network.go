package local

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/google/uuid"

	"strongroom/activities/port"
	"strongroom/compute"
)

// Network is a network of the configuration: a bridge of hosts, on which something gives each address
// of the subnet to the hardware address that MAC makes of it, by DHCP.
type Network struct {
	ID       port.NetworkID
	Name     string
	Projects []string // that may have servers on it; none: all
	Hosts    []string // that have the bridge
	Bridge   string
	MTU      int // bytes
	Prefix   netip.Prefix
	Gateway  netip.Addr // which gives out the addresses, too
	// First and Last bound the addresses that ports get without asking for one. Zero: all of the prefix.
	First, Last netip.Addr
	DNS         []netip.Addr
}

// A prefix has at most 1024 addresses: each is known to what gives them out.
const largest = 22

// Check refuses a network that cannot be: its text says why.
func (n Network) Check() error {
	switch {
	case n.ID.UUID == uuid.Nil || n.Name == "" || n.Bridge == "" || len(n.Hosts) == 0:
		return fmt.Errorf("network %s: it needs a uuid, a name, a bridge and hosts", n.ID)
	case !n.Prefix.IsValid() || !n.Prefix.Addr().Is4() || n.Prefix != n.Prefix.Masked() || n.Prefix.Bits() < largest || n.Prefix.Bits() > 30:
		return fmt.Errorf("network %s: %s is no IPv4 prefix of 4 to 1024 addresses, such as 10.0.0.0/24", n.ID, n.Prefix)
	case !n.usable(n.Gateway):
		return fmt.Errorf("network %s: the gateway %s is no address of %s", n.ID, n.Gateway, n.Prefix)
	case n.First.IsValid() != n.Last.IsValid() || n.First.IsValid() && (!n.usable(n.First) || !n.usable(n.Last) || n.Last.Less(n.First)):
		return fmt.Errorf("network %s: %s to %s are no addresses of %s", n.ID, n.First, n.Last, n.Prefix)
	case n.MTU < 68 || n.MTU > 65535:
		return fmt.Errorf("network %s: an MTU of %d bytes", n.ID, n.MTU)
	}
	return nil
}

// CheckAll refuses networks that cannot be beside each other: a hardware address would not be one port's.
func CheckAll(all []Network) error {
	for i, n := range all {
		if err := n.Check(); err != nil {
			return err
		}
		for _, o := range all[:i] {
			if o.ID == n.ID || o.Prefix.Overlaps(n.Prefix) {
				return fmt.Errorf("networks %s and %s have one uuid, or addresses in common", o.ID, n.ID)
			}
		}
	}
	return nil
}

// usable reports whether an interface can have the address.
func (n Network) usable(a netip.Addr) bool {
	return n.Prefix.Contains(a) && a != n.Prefix.Addr() && a != broadcast(n.Prefix)
}

// Addresses gives those that ports can have, in order.
func (n Network) Addresses() (all []netip.Addr) {
	for a := n.Prefix.Addr().Next(); n.usable(a); a = a.Next() {
		if a != n.Gateway {
			all = append(all, a)
		}
	}
	return all
}

// free gives the first address for a port that is not taken.
func (n Network) free(taken []string) (netip.Addr, error) {
	for _, a := range n.Addresses() {
		if n.given(a) && !slices.Contains(taken, a.String()) {
			return a, nil
		}
	}
	return netip.Addr{}, port.Exhausted(n.ID)
}

// given reports whether a port gets the address without asking for it.
func (n Network) given(a netip.Addr) bool {
	return !n.First.IsValid() || !a.Less(n.First) && !n.Last.Less(a)
}

// MAC is the hardware address of the port that has an address: one that is assigned locally, and no other
// port's, since no two networks have addresses in common.
func MAC(address netip.Addr) string {
	ip := address.As4()
	return net.HardwareAddr(slices.Concat([]byte{0xfa, 0x72}, ip[:])).String()
}

func broadcast(p netip.Prefix) netip.Addr {
	ip := p.Masked().Addr().As4()
	for bit := p.Bits(); bit < 32; bit++ {
		ip[bit/8] |= 0x80 >> (bit % 8)
	}
	return netip.AddrFrom4(ip)
}

// visible reports whether a project may have servers on the network.
func (n Network) visible(project string) bool {
	return len(n.Projects) == 0 || slices.Contains(n.Projects, project)
}

// subnet is the network's only one.
func (n Network) subnet() port.SubnetID {
	return port.SubnetID{UUID: uuid.NewSHA1(n.ID.UUID, []byte("subnet"))}
}

// seen is the network as a project sees it.
func (n Network) seen() port.Network {
	out := port.Network{
		ID: n.ID, Name: n.Name, MTU: n.MTU, Shared: len(n.Projects) != 1,
		Subnets: []port.Subnet{{ID: n.subnet(), Prefix: n.Prefix, Gateway: n.Gateway, DHCP: true, DNS: n.DNS}},
	}
	if !out.Shared {
		out.ProjectID = n.Projects[0]
	}
	return out
}

// vif is how its hosts plug a port. They filter what its guest sends: nobody else does.
func (n Network) vif() port.VIF {
	return port.VIF{Type: compute.VIFBridge, Bridge: n.Bridge, HostFilter: true}
}

// group is a project's only security group, which lets everything in and out.
func group(project string) port.GroupID {
	return port.GroupID{UUID: uuid.NewSHA1(uuid.NameSpaceOID, []byte("strongroom security group "+project))}
}

func byID(a, b port.Network) int { return bytes.Compare(a.ID.UUID[:], b.ID.UUID[:]) }

// checkGroups refuses groups that the project does not have.
func checkGroups(project string, asked []port.GroupID) error {
	for _, g := range asked {
		if g != group(project) {
			return port.MissingGroup(g.String())
		}
	}
	return nil
}

func forbidden() error {
	return compute.Errorf(compute.Forbidden, "a port is used with a credential of the project that owns it")
}
