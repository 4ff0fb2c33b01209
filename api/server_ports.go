package api

import (
	"encoding/json"
	"slices"

	"strongroom/api/fault"
	"strongroom/compute"
)

// planPorts plans the interfaces of a create on the network service, with the requester's token:
// what can be known to fail is refused here, with the codes of Nova.
func (a *API) planPorts(r *Request, p *serverPlan) ([]compute.Network, error) {
	in, err := readNetworks(r, p)
	if err != nil {
		return nil, err
	}
	if len(in.Networks) == 0 && !in.Automatic && !in.Required && len(in.Groups) == 0 {
		return []compute.Network{}, nil
	}
	in.Least, in.Most, in.External = p.least, p.count, r.Allowed(ruleExternal)
	if p.count == 1 {
		_, in.Hostname = p.names(0, 1, "")
	}
	planned, servers, err := a.config.Networks.Plan(r.Context(), r.Credential(), in)
	switch {
	case compute.Is(err, compute.NotFound):
		return nil, fault.BadRequest("%s", err)
	case err != nil:
		return nil, err
	case planned == nil:
		planned = []compute.Network{}
	}
	if err := compute.CheckNetworkText(planned); err != nil {
		return nil, err
	}
	p.count = servers // as Nova makes no more than the quota of ports has room for
	return planned, nil
}

// groupNames are the security groups of a create, by what it calls them.
func (p *serverPlan) groupNames() (names []string) {
	for _, group := range p.SecurityGroups {
		names = append(names, group.Name)
	}
	if len(names) == 0 {
		names = []string{compute.DefaultGroup}
	}
	return names
}

// readNetworks reads what a create says of its interfaces and of their security groups.
func readNetworks(r *Request, p *serverPlan) (in compute.NetworkRequest, err error) {
	for _, group := range p.SecurityGroups {
		if !slices.Contains(in.Groups, group.Name) {
			in.Groups = append(in.Groups, group.Name)
		}
	}
	var word string
	_ = json.Unmarshal(p.Networks, &word)
	switch {
	case word == "none":
		return in, nil
	case word == "auto":
		in.Required = true
		return in, nil
	case len(p.Networks) == 0 || string(p.Networks) == "null":
		in.Automatic = true
		return in, nil
	}
	var asked []requestedNetwork
	if err := json.Unmarshal(p.Networks, &asked); err != nil {
		return in, fault.BadRequest("Bad networks format")
	}
	if len(asked) > maxNetworks {
		return in, fault.BadRequest("A server has at most %d networks.", maxNetworks)
	}
	in.Automatic = len(asked) == 0 && r.Version < 37
	tags := map[string]bool{}
	for _, n := range asked {
		port := deref(n.Port)
		switch {
		case p.count > 1 && port != "":
			return in, fault.BadRequest("Failed to launch instances: Unable to launch multiple instances with a single configured port ID. " +
				"Please launch your instance one by one with different ports.")
		case p.count > 1 && n.FixedIP != "":
			return in, fault.BadRequest("Failed to launch instances: max_count cannot be greater than 1 if an fixed_ip is specified.")
		case port != "" && n.FixedIP != "":
			return in, fault.BadRequest("Specified Fixed IP '%s' cannot be used with port '%s': the two cannot be specified together.", n.FixedIP, port)
		case n.Tag != "" && tags[n.Tag]:
			return in, fault.BadRequest("The tag '%s' is given to two networks.", n.Tag)
		}
		tags[n.Tag] = true
		in.Networks = append(in.Networks, compute.RequestedNetwork{UUID: n.UUID, Port: port, FixedIP: n.FixedIP, Tag: n.Tag})
	}
	return in, nil
}
