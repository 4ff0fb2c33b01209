package port

import (
	"context"

	"github.com/google/uuid"

	"strongroom/compute"
)

// SecurityGroups is the part of a Service about the security groups that ports of servers have. All of it is done with
// the credential.
type SecurityGroups interface {
	// ServerGroups gives the groups of the ports of a project's server that the credential sees, with their rules for what comes in:
	// also those that another project shares.
	ServerGroups(ctx context.Context, cred compute.Credential, project string, server compute.ServerID) ([]compute.SecurityGroup, error)
	// AddGroup ensures that all of a server's ports have a group, by its name or id. NotFound: there is no
	// such group, or no port; Conflict: several groups have the name; Invalid: a port can have none.
	AddGroup(ctx context.Context, cred compute.Credential, server compute.ServerID, name string) error
	// RemoveGroup ensures that none of a server's ports has a group. NotFound: also where none had it; Invalid: none can be
	// without it.
	RemoveGroup(ctx context.Context, cred compute.Credential, server compute.ServerID, name string) error
}

// Ungroupable is the error for a port that can have no security group.
func Ungroupable() error {
	return compute.Errorf(compute.Invalid, "Network requires port_security_enabled and subnet associated in order to apply security groups.")
}

// NotAssociated is the error for a security group that none of a server's ports has.
func NotAssociated(name string, server compute.ServerID) error {
	return compute.Errorf(compute.NotFound, "Security group %s not associated with the instance %s", name, server)
}

// NotInProject is the error for a security group that is not there for the credential.
func NotInProject(name, project string) error {
	return compute.Errorf(compute.NotFound, "Security group %s is not found for project %s", name, project)
}

// OpenRule is the id of the rule of a group that lets everything pass in one direction, "ingress" or "egress".
func OpenRule(group GroupID, direction string) uuid.UUID {
	return uuid.NewSHA1(group.UUID, []byte(direction))
}
