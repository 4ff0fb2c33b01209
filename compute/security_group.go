package compute

import (
	"maps"
	"slices"
)

// HasNoPorts is the error for the security groups of a server without ports.
func HasNoPorts(server ServerID) error {
	return Errorf(NotFound, "instance_id %s could not be found as device id on any ports", server)
}

// SecurityGroup is one that ports of a server have, with its rules for what comes in.
type SecurityGroup struct {
	ID          SecurityGroupID
	Name        string
	Description string
	ProjectID   string
	Rules       []SecurityGroupRule
	Ports       []PortID // the server's that have it
}

// SecurityGroupRule lets something in.
type SecurityGroupRule struct {
	ID       string
	Protocol string           // "": any
	From, To *int             // ports, or type and code of ICMP; nil: any
	Prefix   string           // who may send, as a CIDR; "": anybody, or Group
	Group    string           // whose servers may, by the name of their security group
	Project  string           // that Group belongs to; "": Prefix says who
	GroupID  *SecurityGroupID // of Group, where a rule is to be made
}

// GroupsCalled gives what the security groups of a server's ports are called, each once: by the name that is told, else as one of the
// ports was asked to have it, else by its id. Of ports that nobody looked at yet they are those that were asked for; where
// nothing was, and of a server without ports, it is the project's default one.
func GroupsCalled(networks []Network, told map[SecurityGroupID]string) (names []string) {
	called := map[SecurityGroupID]string{}
	for _, n := range networks {
		if n.Port == nil {
			continue
		}
		for i, id := range n.Port.Groups[:min(len(n.Port.Groups), len(n.Port.GroupNames))] {
			called[id] = n.Port.GroupNames[i]
		}
	}
	maps.Copy(called, told)
	looked := len(networks) > 0
	for _, n := range networks {
		if n.Port == nil || n.Port.Secured == nil {
			looked = false
		}
		if n.Port != nil {
			names = append(names, n.Port.groupsCalled(called)...)
		}
	}
	if len(names) == 0 && !looked {
		names = []string{DefaultGroup}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// groupsCalled names the security groups of a port.
func (p Port) groupsCalled(called map[SecurityGroupID]string) (names []string) {
	if p.Secured == nil {
		return slices.Clone(p.GroupNames)
	}
	for _, id := range p.Secured {
		name := called[id]
		if name == "" && len(p.Groups) == 0 && len(p.Secured) == 1 && !p.Brought {
			name = DefaultGroup // as the service chooses
		}
		if name == "" {
			name = id.String()
		}
		names = append(names, name)
	}
	return names
}
