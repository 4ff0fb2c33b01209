package compute

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
	Protocol string // "": any
	From, To *int   // ports, or type and code of ICMP; nil: any
	Prefix   string // who may send, as a CIDR; "": anybody, or Group
	Group    string // whose servers may, by the name of their security group; "": Prefix says who
	Project  string // that Group belongs to
}
