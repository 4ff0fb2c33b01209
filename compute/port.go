package compute

import "github.com/google/uuid"

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
