package compute

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// The ids of what a network service (Neutron) has.
type (
	// PortID names a port: a server's interface on a network.
	PortID struct{ uuid.UUID }
	// NetworkID names a network.
	NetworkID struct{ uuid.UUID }
	// SubnetID names a subnet of a network.
	SubnetID struct{ uuid.UUID }
	// SecurityGroupID names a security group.
	SecurityGroupID struct{ uuid.UUID }
)

// NamedNetwork is a network of the service, as its users look for one.
type NamedNetwork struct {
	ID   NetworkID
	Name string
}

// DefaultGroup is the name of a project's first security group: of ports that nothing else is asked for.
const DefaultGroup = "default"

// Port is a server's port in the network service: what is asked for and, once it is there, what
// the service said of it.
type Port struct {
	ID      *PortID           `json:"id,omitempty"`              // nil: it is not made yet
	Brought bool              `json:"brought,omitempty"`         // its user made it: it is never removed
	FixedIP string            `json:"fixed_ip,omitempty"`        // asked for; "": any
	Groups  []SecurityGroupID `json:"security_groups,omitempty"` // asked for; none: as the service chooses
	// GroupNames are what its user calls these.
	GroupNames []string `json:"group_names,omitempty"`
	// Secured are the security groups that it has, as was seen last; nil: nobody looked yet.
	Secured []SecurityGroupID `json:"secured,omitzero"`

	Status    string        `json:"status,omitempty"` // ACTIVE: traffic flows; as it was seen last
	Label     string        `json:"label,omitempty"`  // its network's name
	Addresses []PortAddress `json:"addresses,omitempty"`
	MTU       int           `json:"mtu,omitempty"` // bytes; 0: not known
	// Static and Told are the subnets of its network of which the guest's metadata tells: those whose addresses it says, and others of IPv6,
	// of which a host of an earlier release says nothing.
	Static []ToldSubnet `json:"static,omitempty"`
	Told   []ToldSubnet `json:"told,omitempty"`
	// Subports are the ports that the guest reaches through this one, the parent of a trunk.
	Subports []Subport `json:"subports,omitempty"`
	Type     VIFType   `json:"vif_type,omitempty"`
	Bridge   string    `json:"bridge,omitempty"` // that it is plugged into, on the host
	// HostFilter has the host drop what the guest sends with other addresses than these.
	HostFilter bool `json:"host_filter,omitempty"`
}

// NetworkRequest is what a create asks of interfaces.
type NetworkRequest struct {
	Networks  []RequestedNetwork
	Automatic bool     // the one network that the project has, or none
	Required  bool     // the one network that the project has
	Groups    []string // security groups of the ports that are made, by name or id; none: the project's default
	Hostname  string   // of the server; "": several are asked for
	External  bool     // also external networks of other projects
	// Least and Most are how many servers are to be made with them; 0: they are for one that is there.
	Least, Most int
}

// RequestedNetwork is one interface: a port, or a network.
type RequestedNetwork struct {
	UUID    string
	Port    string
	FixedIP string // "": any
	Tag     string
}

// PortAddress is an address of a port.
type PortAddress struct {
	Subnet   SubnetID `json:"subnet_id"`
	IP       string   `json:"ip_address"`
	Floating []string `json:"floating_ips,omitempty"` // addresses of external networks at which this one is reached
}

// Subport is a port that is a VLAN of the parent of a trunk.
type Subport struct {
	VLAN      int           `json:"vlan_id"`
	ID        PortID        `json:"port_id"`
	Network   string        `json:"network_id"`
	MAC       string        `json:"mac_address"`
	MTU       int           `json:"mtu,omitempty"` // bytes; 0: not known
	Addresses []PortAddress `json:"addresses,omitempty"`
	Told      []ToldSubnet  `json:"told,omitempty"` // as Port.Static and Port.Told
}

// AddressMode says how a guest gets its address in a subnet, by the names that Nova has for it in network_data.json.
type AddressMode string

// The modes.
const (
	AddressStatic    AddressMode = ""                 // the guest's metadata says it
	AddressDHCP      AddressMode = "dhcp"             // of IPv6, where the network service says no more of it
	AddressSLAAC     AddressMode = "slaac"            // routers announce the prefix
	AddressStateful  AddressMode = "dhcpv6-stateful"  // DHCP gives it
	AddressStateless AddressMode = "dhcpv6-stateless" // routers announce the prefix, DHCP tells the rest
)

// TellsOf gives an interface with the subnets of its network of which the guest's metadata tells.
func (n Network) TellsOf(all []ToldSubnet) Network {
	port := *n.Port
	for _, s := range all {
		if s.Mode == AddressStatic {
			port.Static = append(port.Static, s)
		} else {
			port.Told = append(port.Told, s)
		}
	}
	n.Port = &port
	return n
}

// ToldSubnet is a subnet of which a guest's metadata tells.
type ToldSubnet struct {
	ID      SubnetID     `json:"id"`
	Mode    AddressMode  `json:"mode,omitempty"`
	Prefix  netip.Prefix `json:"cidr"`
	Gateway netip.Addr   `json:"gateway_ip,omitzero"`
	DNS     []netip.Addr `json:"dns_nameservers,omitempty"`
	Routes  []ToldRoute  `json:"routes,omitempty"` // beside that to the gateway
}

// ToldRoute is one of a ToldSubnet.
type ToldRoute struct {
	To  netip.Prefix `json:"destination"`
	Via netip.Addr   `json:"nexthop"`
}

// VIFType says how a host plugs a port.
type VIFType string

// The types that hosts can plug.
const (
	VIFOpenVSwitch VIFType = "ovs"
	VIFBridge      VIFType = "bridge"
)

// integrationBridge is Open vSwitch's where Neutron names none.
const integrationBridge = "br-int"

// BridgeOf is the bridge that ports of a type and a network are plugged into where Neutron names
// none: Neutron's agents look for these names.
func BridgeOf(t VIFType, network string) string {
	if t == VIFBridge {
		return "brq" + network[:min(11, len(network))]
	}
	return integrationBridge
}

// TapName is the port's device on a host. Neutron's agents look for this name.
func (id PortID) TapName() string { return "tap" + id.String()[:11] }

// PortUse names on the ledger that a server has a port which its user brought.
func PortUse(id PortID, server ServerID) string { return id.String() + "/" + server.String() }

// ParsePortUse reads a name that PortUse gave. Invalid: it gave none such.
func ParsePortUse(name string) (PortID, ServerID, error) {
	first, second, _ := strings.Cut(name, "/")
	id, err := uuid.Parse(first)
	server, noServer := uuid.Parse(second)
	if err != nil || noServer != nil {
		return PortID{}, ServerID{}, Errorf(Invalid, "%q names no server's use of a port", name)
	}
	return PortID{UUID: id}, ServerID{UUID: server}, nil
}

const portPrefix = "strongroom-"

// PortName is the name of the port that an operation makes, by the operation's own label for
// it: the same for each attempt, and no other port's.
func PortName(op OperationID, label string) string {
	return portPrefix + op.Derive("port/"+label).String()
}

// IsPortName reports whether a port of the name is one that strongroom made.
func IsPortName(name string) bool {
	id, found := strings.CutPrefix(name, portPrefix)
	_, err := uuid.Parse(id)
	return found && err == nil && len(id) == 36
}

// PortInUse is the error for a port that another server has. Conflict.
func PortInUse(id PortID) error { return Errorf(Conflict, "Port %s is still in use.", id) }

// PortExists reports whether the interface is a port in the network service, and that is made, not only asked for.
func (n Network) PortExists() bool { return n.Port != nil && n.Port.ID != nil }

// UsesPorts reports whether the server has interfaces that are ports in the network service, made or asked for.
func (s Server) UsesPorts() bool {
	return slices.ContainsFunc(s.Networks, func(n Network) bool { return n.Port != nil })
}
