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

// OwnGroups is what a Service has whose users make security groups. All of it is done with the credential, to whom
// a group of another project is NotFound unless the service shows it.
type OwnGroups interface {
	// ListGroups gives the groups of a project, with their rules for what comes in; "": all that the credential sees.
	ListGroups(ctx context.Context, cred compute.Credential, project string) ([]compute.SecurityGroup, error)
	// GetGroup gives one.
	GetGroup(ctx context.Context, cred compute.Credential, id GroupID) (compute.SecurityGroup, error)
	// CreateGroup makes one in the credential's project. Forbidden: the quota is used up, the name is the default group's, or the
	// service has another conflict.
	CreateGroup(ctx context.Context, cred compute.Credential, name, description string) (compute.SecurityGroup, error)
	// UpdateGroup gives a group another name and description. Invalid: it is a project's default one.
	UpdateGroup(ctx context.Context, cred compute.Credential, id GroupID, name, description string) (compute.SecurityGroup, error)
	// DeleteGroup removes a group. Invalid: a port has it, it is a project's default one, or the service has another conflict.
	DeleteGroup(ctx context.Context, cred compute.Credential, id GroupID) error
	// CreateRule lets something in, and gives the rule without the name of its group. Forbidden: the quota is used up, the
	// group has that rule, or the service has another conflict.
	CreateRule(ctx context.Context, cred compute.Credential, group GroupID, rule compute.SecurityGroupRule) (compute.SecurityGroupRule, error)
	// DeleteRule removes a rule of any group.
	DeleteRule(ctx context.Context, cred compute.Credential, id uuid.UUID) error
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

// MissingRule is the error for a rule that is not there, or not for this credential.
func MissingRule(id uuid.UUID) error {
	return compute.Errorf(compute.NotFound, "Security group rule %s not found.", id)
}

// OpenRule is the id of the rule of a group that lets everything pass in one direction, "ingress" or "egress".
func OpenRule(group GroupID, direction string) uuid.UUID {
	return uuid.NewSHA1(group.UUID, []byte(direction))
}
