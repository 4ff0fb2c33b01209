package port

import (
	"context"
	"net/netip"
	"slices"

	"github.com/google/uuid"

	"strongroom/compute"
)

// Plan checks what a request asks of interfaces, as Nova does before anything is made, and gives
// them as each server is to have them, and for how many of the servers that are asked for there are ports and
// addresses now: of those no fewer than in.Least. NotFound: a network, port or security group is not there for the
// credential; Invalid: it is no use, or no address of it, or none is left; Conflict: a port is in use, or it is not
// clear which network is meant; Forbidden: an external network, or more ports than the project may have. An address
// that is taken is Invalid for servers that are to be made, and a Conflict for one that is there.
func Plan(ctx context.Context, s Service, cred compute.Credential, in compute.NetworkRequest) (planned []compute.Network, servers int, err error) {
	p := planner{service: s, cred: cred, names: in.Groups, hostname: in.Hostname, external: in.External, create: in.Most > 0, known: map[NetworkID]Network{}}
	if planned, err = p.all(ctx, in); err != nil {
		return nil, 0, err
	}
	if servers, err = fitting(ctx, s, cred, planned, max(in.Least, 1), max(in.Most, 1)); err != nil {
		return nil, 0, err
	}
	if reached, err := Reached(ctx, s, planned); err == nil { // they are only shown, and seen again with the next event
		planned = reached
	}
	return planned, servers, nil
}

// all plans all interfaces; nil: there is no network.
func (p *planner) all(ctx context.Context, in compute.NetworkRequest) ([]compute.Network, error) {
	if len(in.Groups) > 0 { // also where no port is made for them
		var err error
		if p.groups, err = p.service.Groups(ctx, p.cred, in.Groups); err != nil {
			return nil, err
		}
	}
	asked := in.Networks
	if in.Automatic || in.Required {
		only, err := p.automatic(ctx, in.Required)
		if err != nil || only == nil {
			return nil, err
		}
		asked = only
	}
	out := []compute.Network{}
	for _, n := range asked {
		planned, err := p.plan(ctx, n)
		if err != nil {
			return nil, err
		}
		if id := planned.Port.ID; id != nil && slices.ContainsFunc(out, func(o compute.Network) bool { return o.Port.ID != nil && *o.Port.ID == *id }) {
			return nil, compute.PortInUse(*id)
		}
		if address := planned.Port.FixedIP; address != "" && slices.ContainsFunc(out, func(o compute.Network) bool { return o.UUID == planned.UUID && sameAddress(o.Port.FixedIP, address) }) {
			return nil, p.taken(address, "")
		}
		if err := (compute.Server{Networks: out}).CheckMAC(planned); err != nil {
			return nil, err
		}
		out = append(out, planned)
	}
	return out, nil
}

// planner is a Plan under way.
type planner struct {
	service  Service
	cred     compute.Credential
	groups   []GroupID
	names    []string // of these
	create   bool     // of servers; else they are for one that is there
	hostname string   // of the server, as far as it is known
	external bool     // he may have servers on external networks of other projects
	known    map[NetworkID]Network
}

// automatic gives the one network that there is for the credential's project; nil: there is none.
func (p *planner) automatic(ctx context.Context, required bool) ([]compute.RequestedNetwork, error) {
	all, err := p.service.Networks(ctx, p.cred)
	if err != nil {
		return nil, err
	}
	switch {
	case len(all) == 1:
		p.known[all[0].ID] = all[0]
		return []compute.RequestedNetwork{{UUID: all[0].ID.String()}}, nil
	case len(all) > 1:
		return nil, compute.Errorf(compute.Conflict, "Multiple possible networks found, use a Network ID to be more specific.")
	case required:
		return nil, compute.Errorf(compute.Invalid, "Unable to automatically allocate a network for project %s", p.cred.ProjectID)
	}
	return nil, nil
}

func (p *planner) plan(ctx context.Context, n compute.RequestedNetwork) (compute.Network, error) {
	if n.Port != "" {
		return p.brought(ctx, n)
	}
	id, err := parseNetwork(n.UUID)
	if err != nil {
		return compute.Network{}, err
	}
	network, err := p.network(ctx, id)
	if err == nil {
		err = network.CheckAttachable(p.cred, p.external)
	}
	if err == nil && n.FixedIP != "" {
		if err = network.checkAddress(n.FixedIP); err == nil {
			err = p.checkFree(ctx, id, n.FixedIP)
		}
	}
	groups, names := p.groups, p.names
	if err == nil && network.Unsecured { // the default group is everywhere, and nothing that its user asked for
		if slices.ContainsFunc(names, func(name string) bool { return name != compute.DefaultGroup }) {
			err = Ungroupable()
		}
		groups, names = nil, nil
	}
	return compute.Network{UUID: id.String(), Tag: n.Tag, Port: &compute.Port{FixedIP: n.FixedIP, Groups: groups, GroupNames: names, Label: network.Name}}.TellsOf(network.told()), err
}

// brought plans an interface on a port that its user made.
func (p *planner) brought(ctx context.Context, n compute.RequestedNetwork) (compute.Network, error) {
	id, err := parseID(n.Port)
	if err != nil {
		return compute.Network{}, err
	}
	found, err := p.service.Get(ctx, p.cred, id)
	if err == nil {
		err = found.CheckUsable(compute.ServerID{})
	}
	if err == nil {
		err = found.CheckNamed(p.hostname, p.hostname)
	}
	if err != nil {
		return compute.Network{}, err
	}
	network, err := p.network(ctx, found.Network)
	asked := compute.Network{UUID: found.Network.String(), Tag: n.Tag, Port: &compute.Port{ID: &id, Brought: true, Label: network.Name}}.TellsOf(network.told())
	if err == nil {
		asked.Port.Subports, err = p.subports(ctx, found)
	}
	return found.Plugged(asked), err
}

// mostSubports is of how many ports of a trunk a guest is told.
const mostSubports = 64

// subports gives what a guest is told of the trunk whose parent a port is.
func (p *planner) subports(ctx context.Context, parent Port) (all []compute.Subport, err error) {
	for _, tagged := range parent.Trunk[:min(len(parent.Trunk), mostSubports)] {
		found, err := p.service.Get(ctx, p.cred, tagged.ID)
		if compute.Is(err, compute.NotFound) { // it is another project's by now, or gone
			continue
		}
		if err != nil {
			return nil, err
		}
		network, err := p.network(ctx, found.Network)
		if compute.Is(err, compute.Invalid) || compute.Is(err, compute.NotFound) { // he does not see it
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, compute.Subport{
			VLAN: tagged.VLAN, ID: found.ID, Network: network.ID.String(), MAC: found.MAC, MTU: network.MTU, Told: network.told(),
			Addresses: found.addresses(nil),
		})
	}
	return all, nil
}

func (p *planner) network(ctx context.Context, id NetworkID) (Network, error) {
	if n, ok := p.known[id]; ok {
		return n, nil
	}
	n, err := p.service.Network(ctx, p.cred, id)
	if err == nil {
		p.known[id] = n
	}
	return n, err
}

// told gives the network's subnets of which guests are told by their metadata.
func (n Network) told() (all []compute.ToldSubnet) {
	for _, s := range n.Subnets {
		mode := s.Mode
		switch {
		case s.DHCP && s.Prefix.Addr().Is4():
			continue
		case s.DHCP && mode == compute.AddressStatic:
			mode = compute.AddressDHCP
		}
		one := compute.ToldSubnet{ID: s.ID, Mode: mode, Prefix: s.Prefix, Gateway: s.Gateway, DNS: s.DNS}
		for _, r := range s.Routes {
			one.Routes = append(one.Routes, compute.ToldRoute(r))
		}
		all = append(all, one)
	}
	return all
}

// checkAddress refuses, with Invalid, an address that is none of the network's.
func (n Network) checkAddress(text string) error {
	address, err := netip.ParseAddr(text)
	if err == nil && slices.ContainsFunc(n.Subnets, func(s Subnet) bool { return s.Prefix.Contains(address) }) {
		return nil
	}
	return Outside(text, n.ID)
}

// Plugged gives an interface with what the port says.
func (p Port) Plugged(n compute.Network) compute.Network {
	known := *n.Port
	known.ID = &p.ID
	if p.VIF.Type != "" { // else whoever looked is not told of bindings
		known = *p.VIF.plugged(compute.Network{UUID: n.UUID, Port: &known}).Port
	}
	if p.MTU != 0 {
		known.MTU = p.MTU
	}
	known.Addresses, known.Secured = p.addresses(known.Addresses), append([]GroupID{}, p.Groups...)
	slices.SortFunc(known.Secured, func(a, b GroupID) int { return slices.Compare(a.UUID[:], b.UUID[:]) }) // else each look could change it
	n.MAC, n.Port, known.Status = p.MAC, &known, p.Status
	return n
}

// Deleted gives a server's interface on a port that is no longer in the network service.
func Deleted(n compute.Network) compute.Network {
	known := *n.Port
	known.Addresses, known.Secured, known.Status = nil, []GroupID{}, StatusDown
	n.Port = &known
	return n
}

// addresses gives the port's, with what is known of where they are reached.
func (p Port) addresses(known []compute.PortAddress) (all []compute.PortAddress) {
	for _, a := range p.Addresses {
		one := compute.PortAddress{Subnet: a.Subnet, IP: a.IP.String()}
		for _, k := range known {
			if k.IP == one.IP {
				one.Floating = k.Floating
			}
		}
		all = append(all, one)
	}
	return all
}

// plugged gives an interface with what a binding says of it.
func (v VIF) plugged(n compute.Network) compute.Network {
	known := *n.Port
	known.Type, known.Bridge, known.HostFilter = v.Type, v.Bridge, v.HostFilter
	if known.Bridge == "" {
		known.Bridge = compute.BridgeOf(known.Type, n.UUID)
	}
	n.Port = &known
	return n
}

func parseNetwork(text string) (NetworkID, error) {
	id, err := uuid.Parse(text)
	if err != nil {
		return NetworkID{}, compute.Errorf(compute.Invalid, "Bad networks format: network uuid is not in proper format (%s)", text)
	}
	return NetworkID{UUID: id}, nil
}

func parseID(text string) (ID, error) {
	id, err := uuid.Parse(text)
	if err != nil {
		return ID{}, compute.Errorf(compute.Invalid, "Bad port format: port uuid is not in proper format (%s)", text)
	}
	return ID{UUID: id}, nil
}
