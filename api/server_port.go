package api

import (
	"context"

	"github.com/google/uuid"

	"strongroom/compute"
	"strongroom/durable/outbox"
)

// Operations starts the workflows of operations and waits for them; durable.Starter is one.
type Operations interface {
	outbox.Starter
	// Health fails while Temporal does not answer.
	Health(ctx context.Context) error
	// ImageRecord waits until op has made the record of its image. failure says why it
	// ended without one. Unavailable: ctx ended before either was known.
	ImageRecord(ctx context.Context, op compute.Operation) (failure *compute.Error, err error)
	// Ended waits until op has ended. failure says why it failed. Unavailable: ctx ended before that was known.
	Ended(ctx context.Context, op compute.Operation) (failure *compute.Error, err error)
	// PortPlugged tells the create of a server that one of its ports may have become active. It
	// does nothing where none is under way.
	PortPlugged(ctx context.Context, server compute.ServerID) error
	// Progress is how far the long work of an operation is that runs; found is false where there is
	// none, or it told nothing yet.
	Progress(ctx context.Context, op compute.Operation) (p compute.Progress, found bool, err error)
}

// Networks is the network service, as the api asks it.
type Networks interface {
	// Plan checks what a request asks of interfaces and gives them as each server is to have them, and for how many
	// of the servers that are asked for there are ports and addresses.
	// NotFound, Invalid: they cannot be made of what there is for the credential; Conflict: a port is in
	// use, or it is not clear which network is meant; Forbidden: the network is not for servers, or the quota of ports is used up.
	Plan(ctx context.Context, cred compute.Credential, asked compute.NetworkRequest) (planned []compute.Network, servers int, err error)
	// Renew gives a server's interfaces with what the service says of their ports now; nil: as
	// they were. With an error, too, it may give what the service said before it failed.
	Renew(ctx context.Context, projectID string, server compute.ServerID, known []compute.Network) ([]compute.Network, error)
	// GroupNames gives the names of security groups that the credential sees; others are left out. With an error, too, it
	// may give some.
	GroupNames(ctx context.Context, cred compute.Credential, ids []compute.SecurityGroupID) (map[compute.SecurityGroupID]string, error)
	// ServerGroups gives the security groups of the ports of a project's server that the credential sees.
	ServerGroups(ctx context.Context, cred compute.Credential, project string, server compute.ServerID) ([]compute.SecurityGroup, error)
	// AddGroup ensures that all of a server's ports have a security group, by its name or id. NotFound: there is no such
	// group, or no port; Conflict: several have the name; Invalid: a port can have none.
	AddGroup(ctx context.Context, cred compute.Credential, server compute.ServerID, name string) error
	// RemoveGroup ensures that none has it. NotFound: also where none had it.
	RemoveGroup(ctx context.Context, cred compute.Credential, server compute.ServerID, name string) error
	// Visible lists the networks that the credential sees, by their ids in order, and Network gives one. NotFound: it does not see it.
	Visible(ctx context.Context, cred compute.Credential) ([]compute.NamedNetwork, error)
	Network(ctx context.Context, cred compute.Credential, id compute.NetworkID) (compute.NamedNetwork, error)
	// OwnGroups has the security groups that users make; nil: they make none here.
	OwnGroups() OwnGroups
}

// OwnGroups is the part of the network service about the security groups that users make: what port.OwnGroups is in
// activities/port, which says what each gives and how it fails.
type OwnGroups interface {
	ListGroups(ctx context.Context, cred compute.Credential, project string) ([]compute.SecurityGroup, error)
	GetGroup(ctx context.Context, cred compute.Credential, id compute.SecurityGroupID) (compute.SecurityGroup, error)
	CreateGroup(ctx context.Context, cred compute.Credential, name, description string) (compute.SecurityGroup, error)
	UpdateGroup(ctx context.Context, cred compute.Credential, id compute.SecurityGroupID, name, description string) (compute.SecurityGroup, error)
	DeleteGroup(ctx context.Context, cred compute.Credential, id compute.SecurityGroupID) error
	CreateRule(ctx context.Context, cred compute.Credential, group compute.SecurityGroupID, rule compute.SecurityGroupRule) (compute.SecurityGroupRule, error)
	DeleteRule(ctx context.Context, cred compute.Credential, id uuid.UUID) error
}

// changeGroup is AddGroup or RemoveGroup.
type changeGroup func(Networks, context.Context, compute.Credential, compute.ServerID, string) error

// ImageStore is where images are. Those of servers are made by workflows; the api makes none, and changes and deletes only what a
// request names. A credential has a project. Unavailable: the store does not answer.
type ImageStore interface {
	// Image gives an image's record. NotFound: no such image that this credential may see.
	Image(ctx context.Context, cred compute.Credential, id compute.ImageID) (compute.Image, error)
	// Images gives a part of the images that the credential may list. Invalid: the marker is no image.
	Images(ctx context.Context, cred compute.Credential, asked ImageList) (ImagePart, error)
	// ChangeImage gives an image the properties of set, and takes those others of which remove says so; nil: none. It changes what
	// the image has at that moment, and gives the image as it is then: no other property is touched. Forbidden: it is another
	// project's; Invalid: the store takes no such properties; Conflict: one that is to be removed was removed meanwhile.
	ChangeImage(ctx context.Context, cred compute.Credential, id compute.ImageID, set map[string]string, remove func(name string) bool) (compute.Image, error)
	// DeleteImage deletes an image. Forbidden: it is protected, or another project's; Conflict: it is in use.
	DeleteImage(ctx context.Context, cred compute.Credential, id compute.ImageID) error
}

// ImageList asks for a part of a list of images, the newest first.
type ImageList struct {
	Marker   string   // "": from the beginning; else ImagePart.Next of the part before, or an image's id
	Limit    int      // how many at most
	Name     string   // those of this name alone; "": of any
	Statuses []string // those of these statuses of the store alone; nil: of any
}

// ImagePart is a part of a list of images.
type ImagePart struct {
	Images []compute.Image
	Next   string          // "": that is all
	Last   compute.ImageID // that was looked at, where there is more
}

// Hosts asks hosts of what is on them alone; worker/agent.Client is one.
type Hosts interface {
	// Console gives the last lines of a server's console log, all of it when lines
	// is negative, from the agent of its host at url. NotFound: there is none;
	// Unavailable: the host does not answer.
	Console(ctx context.Context, host compute.HostID, url string, server compute.ServerID, lines int) ([]byte, error)
	// Diagnostics gives what the host counts of a server's machine. NotFound: it has none;
	// Unavailable: the host does not answer.
	Diagnostics(ctx context.Context, host compute.HostID, url string, server compute.ServerID) (compute.Diagnostics, error)
	// Consoles lists the consoles of a server's machine. NotFound: none runs there; Unavailable: the host does not answer.
	Consoles(ctx context.Context, host compute.HostID, url string, server compute.ServerID) ([]compute.ConsoleType, error)
	// Kept gives the secrets of a running server whose keys its host keeps. Unavailable: the host
	// does not answer.
	Kept(ctx context.Context, host compute.HostID, url string, server compute.ServerID) ([]compute.SecretID, error)
}
