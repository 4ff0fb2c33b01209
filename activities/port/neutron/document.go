package neutron

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/google/uuid"

	"strongroom/activities/port"
	"strongroom/compute"
)

// fixedIP is an address as Neutron has it.
type fixedIP struct {
	Subnet port.SubnetID `json:"subnet_id"`
	IP     netip.Addr    `json:"ip_address"`
}

// document is a port as Neutron has it. Of the bindings it tells services and
// administrators alone.
type document struct {
	ID        port.ID         `json:"id"`
	Name      string          `json:"name"`
	ProjectID string          `json:"project_id"`
	Network   port.NetworkID  `json:"network_id"`
	MAC       string          `json:"mac_address"`
	FixedIPs  []fixedIP       `json:"fixed_ips"`
	Groups    []port.GroupID  `json:"security_groups"`
	Status    string          `json:"status"`
	Enabled   *bool           `json:"admin_state_up"` // nil: the service did not say
	DeviceID  string          `json:"device_id"`
	Owner     string          `json:"device_owner"`
	HostID    string          `json:"binding:host_id"`
	VIFType   compute.VIFType `json:"binding:vif_type"`
	Details   details         `json:"binding:vif_details"`
	CreatedAt string          `json:"created_at"` // in UTC, to the second
	Revision  int             `json:"revision_number"`
	Security  *bool           `json:"port_security_enabled"` // nil: the service has no such extension
	DNSName   *string         `json:"dns_name"`              // nil: the same
	Trunk     *trunk          `json:"trunk_details"`         // nil: it is no parent, or the same
}

// isNamed reports whether the port has the name in DNS, or the service names none.
func (d document) isNamed(name string) bool { return d.DNSName == nil || *d.DNSName == name }

// trunk are the ports that the guest has by way of the parent.
type trunk struct {
	SubPorts []struct {
		ID   port.ID `json:"port_id"`
		Type string  `json:"segmentation_type"`
		VLAN int     `json:"segmentation_id"`
	} `json:"sub_ports"`
}

// details are what a binding tells of how it is plugged.
type details struct {
	Bridge string `json:"bridge_name"`
	Filter bool   `json:"port_filter"`
	Hybrid bool   `json:"ovs_hybrid_plug"`
}

func (d details) vif(kind compute.VIFType) port.VIF {
	return port.VIF{Type: kind, Bridge: d.Bridge, Filtered: d.Filter, Hybrid: d.Hybrid}
}

const unbound = "unbound"

// isOff reports whether the service says that something is off.
func isOff(flag *bool) bool { return flag != nil && !*flag }

func (d document) port() port.Port {
	p := port.Port{
		ID: d.ID, Name: d.Name, ProjectID: d.ProjectID, Network: d.Network, MAC: d.MAC, Groups: d.Groups,
		Status: d.Status, Disabled: isOff(d.Enabled), Device: d.DeviceID, Host: d.HostID, Addresses: []port.Address{},
	}
	if d.DNSName != nil {
		p.DNSName = *d.DNSName
	}
	for _, ip := range d.FixedIPs {
		p.Addresses = append(p.Addresses, port.Address(ip))
	}
	if d.Trunk != nil {
		for _, sub := range d.Trunk.SubPorts {
			if sub.Type == "vlan" {
				p.Trunk = append(p.Trunk, port.Tagged{ID: sub.ID, VLAN: sub.VLAN})
			}
		}
	}
	if d.VIFType != "" && d.VIFType != unbound {
		p.VIF = d.Details.vif(d.VIFType)
	}
	return p
}

// isOurs reports whether strongroom made the port in the project.
func (d document) isOurs(project string) bool {
	return d.ProjectID == project && compute.IsPortName(d.Name)
}

// byAge sorts ports as they are preferred: those that are bound first, then the older ones.
func byAge(a, b document) int {
	free := func(d document) int {
		if d.Owner == "" {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(free(a), free(b)), cmp.Compare(a.CreatedAt, b.CreatedAt), cmp.Compare(a.ID.String(), b.ID.String()))
}

// network is a network as Neutron has it.
type network struct {
	ID        port.NetworkID `json:"id"`
	Name      string         `json:"name"`
	ProjectID string         `json:"project_id"`
	MTU       int            `json:"mtu"`
	External  bool           `json:"router:external"`
	Shared    bool           `json:"shared"`
	Security  *bool          `json:"port_security_enabled"` // nil: the service has no such extension
}

// subnet is one as Neutron has it.
type subnet struct {
	ID      port.SubnetID       `json:"id"`
	Network port.NetworkID      `json:"network_id"`
	CIDR    netip.Prefix        `json:"cidr"`
	Gateway *netip.Addr         `json:"gateway_ip"`
	DHCP    bool                `json:"enable_dhcp"`
	Mode    compute.AddressMode `json:"ipv6_address_mode"` // null: AddressStatic
	DNS     []netip.Addr        `json:"dns_nameservers"`
	Routes  []port.Route        `json:"host_routes"`
}

func (n network) with(all []subnet) port.Network {
	out := port.Network{ID: n.ID, Name: n.Name, ProjectID: n.ProjectID, MTU: n.MTU, External: n.External, Shared: n.Shared, Unsecured: isOff(n.Security), Subnets: []port.Subnet{}}
	for _, s := range all {
		if s.Network != n.ID {
			continue
		}
		found := port.Subnet{ID: s.ID, Prefix: s.CIDR, DHCP: s.DHCP, Mode: s.Mode, DNS: s.DNS, Routes: s.Routes}
		if s.Gateway != nil {
			found.Gateway = *s.Gateway
		}
		out.Subnets = append(out.Subnets, found)
	}
	slices.SortFunc(out.Subnets, func(a, b port.Subnet) int { return compareIDs(a.ID.UUID, b.ID.UUID) })
	return out
}

func compareIDs(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) }

// own is strongroom's own user, who binds ports.
var own = compute.DeploymentCredential()
