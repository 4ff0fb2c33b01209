package main

import (
	"context"

	"strongroom/activities/port"
	"strongroom/api"
	"strongroom/compute"
)

// networkAccess lets the api ask the network service; nil: there is none.
func networkAccess(service port.Service) api.Networks {
	if _, none := service.(port.None); none {
		return nil
	}
	return networkRecords{service}
}

type networkRecords struct{ service port.Service }

// Plan implements api.Networks.
func (n networkRecords) Plan(ctx context.Context, cred compute.Credential, asked compute.NetworkRequest) (planned []compute.Network, servers int, err error) {
	return port.Plan(ctx, n.service, cred, asked)
}

// Renew implements api.Networks.
func (n networkRecords) Renew(ctx context.Context, projectID string, server compute.ServerID, known []compute.Network) ([]compute.Network, error) {
	return port.Renew(ctx, n.service, projectID, server, known)
}

// GroupNames implements api.Networks.
func (n networkRecords) GroupNames(ctx context.Context, cred compute.Credential, ids []compute.SecurityGroupID) (map[compute.SecurityGroupID]string, error) {
	return n.service.GroupNames(ctx, cred, ids)
}

// ServerGroups implements api.Networks.
func (n networkRecords) ServerGroups(ctx context.Context, cred compute.Credential, project string, server compute.ServerID) ([]compute.SecurityGroup, error) {
	return n.service.ServerGroups(ctx, cred, project, server)
}

// AddGroup implements api.Networks.
func (n networkRecords) AddGroup(ctx context.Context, cred compute.Credential, server compute.ServerID, name string) error {
	return n.service.AddGroup(ctx, cred, server, name)
}

// RemoveGroup implements api.Networks.
func (n networkRecords) RemoveGroup(ctx context.Context, cred compute.Credential, server compute.ServerID, name string) error {
	return n.service.RemoveGroup(ctx, cred, server, name)
}

// Visible implements api.Networks.
func (n networkRecords) Visible(ctx context.Context, cred compute.Credential) ([]compute.NamedNetwork, error) {
	return n.service.Visible(ctx, cred)
}

// Network implements api.Networks.
func (n networkRecords) Network(ctx context.Context, cred compute.Credential, id compute.NetworkID) (compute.NamedNetwork, error) {
	found, err := n.service.Network(ctx, cred, id)
	return compute.NamedNetwork{ID: found.ID, Name: found.Name}, err
}

// OwnGroups implements api.Networks.
func (n networkRecords) OwnGroups() api.OwnGroups {
	if groups, has := n.service.(port.OwnGroups); has {
		return groups
	}
	return nil
}
