// Package port gives servers ports: their interfaces on the networks that users have in
// Neutron.
//
// Service is the port to it; each adapter lives in a folder of its own and passes the suite
// in porttest. A port of strongroom's is made in the project, and with the credential, of
// whoever asks; strongroom's own user binds it. A port that a user brings is bound and
// unbound, and never removed.
package port

import (
	"context"
	"net/netip"

	"strongroom/compute"
)

type (
	// ID names a port.
	ID = compute.PortID
	// NetworkID names a network.
	NetworkID = compute.NetworkID
	// SubnetID names a range of a network's addresses.
	SubnetID = compute.SubnetID
	// GroupID names a security group.
	GroupID = compute.SecurityGroupID
)

// Service is a network service. What belongs to another project, and is not shared with the
// credential's, is NotFound; a credential without a project is Forbidden. No error text
// carries an address of the service or what it wrote. Unavailable: it did not answer, or
// not to the purpose. All methods may be called at once, also from several processes.
type Service interface {
	SecurityGroups
	// Network gives a network with its subnets, as the credential's project sees it.
	Network(ctx context.Context, cred compute.Credential, id NetworkID) (Network, error)
	// Networks gives all networks that the credential's project may put servers on: its own
	// and those that are shared with it, without external ones, by their ids in order.
	Networks(ctx context.Context, cred compute.Credential) ([]Network, error)
	// Visible gives all networks that the credential sees, also external ones, by their ids in order.
	Visible(ctx context.Context, cred compute.Credential) ([]compute.NamedNetwork, error)
	// Groups finds security groups of the credential's project by name or id, in the order
	// that is asked for. NotFound: there is none; Conflict: several have the name.
	Groups(ctx context.Context, cred compute.Credential, names []string) ([]GroupID, error)
	// GroupNames gives the names of security groups that the credential sees; others, and those that are gone, are left out.
	// With an error, too, it may give some.
	GroupNames(ctx context.Context, cred compute.Credential, ids []GroupID) (map[GroupID]string, error)
	// Get gives a port of the credential's project.
	Get(ctx context.Context, cred compute.Credential, id ID) (Port, error)
	// Ensure ensures that there is one port of the name in the credential's project, and
	// gives it. Of several, which attempts at the same time can make, the one stays that is
	// bound, else the oldest; the others are removed.
	// NotFound: the network or a security group; Invalid: an address is none of the
	// network, or no address is left; Conflict: an address is taken; Forbidden: the quota of ports is used up.
	Ensure(ctx context.Context, in EnsureInput) (Port, error)
	// Bind ensures that a port, ours or a user's, is the server's and bound to the host.
	// One that was bound to another host of the same server is bound anew. Of two servers
	// that want a free port at the very same moment, both may seem to get it: to let one
	// server alone have a port is the caller's.
	// Conflict: another server has it, or no host of that name can plug it; Invalid: it has
	// no address, or its user gave it another name in DNS than the server's.
	Bind(ctx context.Context, in BindInput) (Port, error)
	// Unbind ensures that a port is neither the server's nor bound for it. One that is
	// gone, or another server's by now, is a success. With Keep it stays the server's.
	Unbind(ctx context.Context, in UnbindInput) error
	// Prepare ensures that a server's port has a binding at a further host, inactive until
	// Activate, and says how it is plugged there. Conflict: no host of that name can plug
	// it, or the port is not the server's.
	Prepare(ctx context.Context, in BindInput) (VIF, error)
	// Activate makes the binding at the host the active one. What was active before is
	// inactive then. NotFound: the port has none there.
	Activate(ctx context.Context, in BindInput) error
	// Withdraw ensures that a port has no inactive binding at a host. One that is gone is
	// a success. Conflict: it is the active one.
	Withdraw(ctx context.Context, in BindInput) error
	// Remove ensures that no port of the name is left in the project, nor the one of the id
	// where that is known: users can give a port another name. Forbidden: neither
	// strongroom's own user nor the credential may.
	Remove(ctx context.Context, in RemoveInput) error
	// Attached gives the ports that a server has in the credential's project, by their ids in
	// order, as strongroom's own user sees them: no token of the project's is needed. With the
	// zero id they are those of all servers there, and all that strongroom made there.
	Attached(ctx context.Context, cred compute.Credential, server compute.ServerID) ([]Port, error)
	// List gives the ports that strongroom made in the credential's project, by their ids
	// in order.
	List(ctx context.Context, cred compute.Credential) ([]Port, error)
}

// Network is a network that servers can be on.
type Network struct {
	ID        NetworkID `json:"id"`
	Name      string    `json:"name"`
	ProjectID string    `json:"project_id"`
	MTU       int       `json:"mtu"` // bytes; 0: not known
	External  bool      `json:"external,omitempty"`
	Shared    bool      `json:"shared,omitempty"`
	Unsecured bool      `json:"unsecured,omitempty"` // its ports have no security groups
	Subnets   []Subnet  `json:"subnets"`             // by their ids in order
}

// Subnet is a range of addresses of a network.
type Subnet struct {
	ID      SubnetID     `json:"id"`
	Prefix  netip.Prefix `json:"cidr"`
	Gateway netip.Addr   `json:"gateway_ip,omitzero"`
	DHCP    bool         `json:"enable_dhcp"`
	// Mode is how servers get their addresses in a subnet of IPv6, where the service says so.
	Mode   compute.AddressMode `json:"ipv6_address_mode,omitempty"`
	DNS    []netip.Addr        `json:"dns_nameservers,omitempty"`
	Routes []Route             `json:"host_routes,omitempty"`
}

// Route is one that the service tells servers of, beside that to the gateway.
type Route struct {
	To  netip.Prefix `json:"destination"`
	Via netip.Addr   `json:"nexthop"`
}

// Port is a server's interface, or can be one.
type Port struct {
	ID        ID        `json:"id"`
	Name      string    `json:"name"`
	ProjectID string    `json:"project_id"`
	Network   NetworkID `json:"network_id"`
	MAC       string    `json:"mac_address"` // "fa:16:3e:…"
	Addresses []Address `json:"fixed_ips"`
	Groups    []GroupID `json:"security_groups"`
	DNSName   string    `json:"dns_name"`        // "": none, or the service names none
	Status    string    `json:"status"`          // StatusActive: traffic flows; else DOWN, BUILD, ERROR
	Disabled  bool      `json:"disabled"`        // its user lets nothing pass (admin_state_up): it never becomes active
	Device    string    `json:"device_id"`       // the server that has it; "": none
	Host      string    `json:"host"`            // to which it is bound; "": none, or not for the credential to see
	VIF       VIF       `json:"vif"`             // zero unless strongroom bound it or looks by itself
	MTU       int       `json:"mtu"`             // of its network, in bytes; set by Bind
	Trunk     []Tagged  `json:"trunk,omitempty"` // the other ports of the trunk whose parent it is
}

// Tagged is a port whose traffic has a VLAN's number on the trunk's parent.
type Tagged struct {
	ID   ID  `json:"port_id"`
	VLAN int `json:"vlan_id"`
}

// The status of a port that its host has plugged, of one that it has not, and of one that the service cannot serve there: of the last
// it tells by network-vif-plugged, failed.
const (
	StatusActive = "ACTIVE"
	StatusDown   = "DOWN"
	StatusError  = "ERROR"
)

// Address is an address of a port.
type Address struct {
	Subnet SubnetID   `json:"subnet_id"`
	IP     netip.Addr `json:"ip_address"`
}

// VIF is how a host plugs a port.
type VIF struct {
	Type compute.VIFType `json:"type"` // one that no host here can plug, too
	// Bridge is the bridge's name where the service says it; "": br-int of Open vSwitch, and
	// brq… of the network's id of a Linux bridge.
	Bridge string `json:"bridge_name,omitempty"`
	// Filtered says that the service applies security groups by itself.
	Filtered bool `json:"port_filter,omitempty"`
	// HostFilter has the host drop what the guest sends with other addresses than the port's.
	HostFilter bool `json:"host_filter,omitempty"`
	// Hybrid asks for a Linux bridge between server and Open vSwitch.
	Hybrid bool `json:"ovs_hybrid_plug,omitempty"`
}

// EnsureInput asks for a port.
type EnsureInput struct {
	Credential compute.Credential `json:"credential"`
	Name       string             `json:"name"` // compute.PortName; what makes it strongroom's
	Server     compute.ServerID   `json:"server_id"`
	Network    NetworkID          `json:"network_id"`
	Address    netip.Addr         `json:"fixed_ip,omitzero"`         // zero: any
	Groups     []GroupID          `json:"security_groups,omitempty"` // nil: the project's default
}

// BindInput says where a server's port is to be plugged.
type BindInput struct {
	Credential compute.Credential `json:"credential"` // whose project has the port; strongroom's own user acts
	Port       ID                 `json:"port_id"`
	Server     compute.ServerID   `json:"server_id"`
	Host       string             `json:"host"` // as the network service knows it
	Zone       string             `json:"zone"` // availability zone, for the port's owner "compute:ZONE"; "": as before
	// Hostname is the server's: where the service names ports in DNS, it is the port's name there. "": as before.
	Hostname string `json:"hostname,omitempty"`
}

// UnbindInput says which server is to have a port no longer.
type UnbindInput struct {
	Credential compute.Credential `json:"credential"`
	Port       ID                 `json:"port_id"`
	Server     compute.ServerID   `json:"server_id"`
	Keep       bool               `json:"keep,omitempty"` // the server keeps the port, without a host
}

// RemoveInput names a port of strongroom's.
type RemoveInput struct {
	Credential compute.Credential `json:"credential"` // whose project has it
	Name       string             `json:"name"`
	ID         *ID                `json:"port_id,omitempty"` // of what Ensure gave; nil: not known
}
