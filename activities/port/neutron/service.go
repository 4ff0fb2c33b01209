// Package neutron is a port.Service in OpenStack's Neutron.
//
// Neutron takes no ids and keeps no two ports from having one name, so a port of
// strongroom's is found by its name, before one is made and after it. strongroom's own user
// binds ports: it needs Neutron's role service (or advsvc, or admin) and sees the ports of
// all projects.
package neutron

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"

	"strongroom/activities/openstack"
	"strongroom/activities/port"
	"strongroom/compute"
)

// Service is a port.Service in Neutron.
type Service struct {
	Clients openstack.Clients // of the networking API, version 2
}

var _ port.Service = (*Service)(nil)

// client gives one of the credential's own.
func (s *Service) client(ctx context.Context, cred compute.Credential) (*gophercloud.ServiceClient, error) {
	if cred.ProjectID == "" {
		return nil, compute.Errorf(compute.Forbidden, "a port is used with a credential of the project that owns it")
	}
	client, err := s.Clients.Client(ctx, cred)
	return client, openstack.Error(err, "log in to the network service")
}

// Network implements port.Service.
func (s *Service) Network(ctx context.Context, cred compute.Credential, id port.NetworkID) (port.Network, error) {
	client, err := s.client(ctx, cred)
	if err != nil {
		return port.Network{}, err
	}
	var found network
	if err := networks.Get(ctx, client, id.String()).ExtractInto(&found); err != nil {
		if err = openstack.Error(err, fmt.Sprintf("look at network %s", id)); compute.Is(err, compute.NotFound) {
			err = port.MissingNetwork(id)
		}
		return port.Network{}, err
	}
	all, err := subnetsOf(ctx, client, subnets.ListOpts{NetworkID: id.String()})
	return found.with(all), err
}

// Networks implements port.Service.
func (s *Service) Networks(ctx context.Context, cred compute.Credential) ([]port.Network, error) {
	client, err := s.client(ctx, cred)
	if err != nil {
		return nil, err
	}
	found, err := listNetworks(ctx, client)
	if err != nil {
		return nil, err
	}
	// An administrator sees more than is his.
	found = slices.DeleteFunc(found, func(n network) bool { return n.External || n.ProjectID != cred.ProjectID && !n.Shared })
	all, err := subnetsOf(ctx, client, subnets.ListOpts{})
	if err != nil {
		return nil, err
	}
	out := make([]port.Network, len(found))
	for i, n := range found {
		out[i] = n.with(all)
	}
	slices.SortFunc(out, func(a, b port.Network) int { return compareIDs(a.ID.UUID, b.ID.UUID) })
	return out, nil
}

// Visible implements port.Service.
func (s *Service) Visible(ctx context.Context, cred compute.Credential) ([]compute.NamedNetwork, error) {
	client, err := s.client(ctx, cred)
	if err != nil {
		return nil, err
	}
	found, err := listNetworks(ctx, client)
	out := make([]compute.NamedNetwork, len(found))
	for i, n := range found {
		out[i] = compute.NamedNetwork{ID: n.ID, Name: n.Name}
	}
	slices.SortFunc(out, func(a, b compute.NamedNetwork) int { return compareIDs(a.ID.UUID, b.ID.UUID) })
	return out, err
}

// listNetworks gives all networks that the client sees.
func listNetworks(ctx context.Context, client *gophercloud.ServiceClient) (found []network, err error) {
	pages, err := networks.List(client, networks.ListOpts{}).AllPages(ctx)
	if err == nil {
		err = networks.ExtractNetworksInto(pages, &found)
	}
	return found, openstack.Error(err, "list networks")
}

func subnetsOf(ctx context.Context, client *gophercloud.ServiceClient, which subnets.ListOpts) ([]subnet, error) {
	pages, err := subnets.List(client, which).AllPages(ctx)
	var said struct {
		Subnets []subnet `json:"subnets"`
	}
	if err == nil {
		err = pages.(subnets.SubnetPage).ExtractInto(&said)
	}
	return said.Subnets, openstack.Error(err, "list subnets")
}

// Get implements port.Service.
func (s *Service) Get(ctx context.Context, cred compute.Credential, id port.ID) (port.Port, error) {
	client, err := s.client(ctx, cred)
	if err != nil {
		return port.Port{}, err
	}
	d, err := get(ctx, client, id)
	if err == nil && d.ProjectID != cred.ProjectID { // an administrator, or a network's owner, sees more than is his
		err = port.Missing(id)
	}
	if err != nil {
		return port.Port{}, err
	}
	return d.port(), nil
}

func get(ctx context.Context, client *gophercloud.ServiceClient, id port.ID) (d document, err error) {
	err = openstack.Error(ports.Get(ctx, client, id.String()).ExtractInto(&d), fmt.Sprintf("look at port %s", id))
	if compute.Is(err, compute.NotFound) {
		err = port.Missing(id)
	}
	return d, err
}

// list gives ports; which are wanted is for Neutron to say.
func list(ctx context.Context, client *gophercloud.ServiceClient, which ports.ListOpts) ([]document, error) {
	pages, err := ports.List(client, which).AllPages(ctx)
	var all []document
	if err == nil {
		err = ports.ExtractPortsInto(pages, &all)
	}
	return all, openstack.Error(err, "list ports")
}

// List implements port.Service.
func (s *Service) List(ctx context.Context, cred compute.Credential) ([]port.Port, error) {
	client, err := s.client(ctx, cred)
	if err != nil {
		return nil, err
	}
	all, err := list(ctx, client, ports.ListOpts{ProjectID: cred.ProjectID})
	out := []port.Port{}
	for _, d := range all {
		if d.isOurs(cred.ProjectID) {
			out = append(out, d.port())
		}
	}
	slices.SortFunc(out, func(a, b port.Port) int { return compareIDs(a.ID.UUID, b.ID.UUID) })
	return out, err
}

// Attached implements port.Service.
func (s *Service) Attached(ctx context.Context, cred compute.Credential, server compute.ServerID) ([]port.Port, error) {
	if cred.ProjectID == "" {
		return nil, compute.Errorf(compute.Forbidden, "a port is looked at for a project")
	}
	client, err := s.client(ctx, own)
	if err != nil {
		return nil, err
	}
	which, of := ports.ListOpts{ProjectID: cred.ProjectID}, server.String()
	if server != (compute.ServerID{}) {
		which.DeviceID = of
	}
	all, err := list(ctx, client, which)
	if err == nil && len(all) == 0 {
		err = sees(ctx, client, cred.ProjectID)
	}
	out := []port.Port{}
	for _, d := range all {
		theirs := strings.HasPrefix(d.Owner, ownerPrefix)
		if d.ProjectID == cred.ProjectID && (theirs && d.DeviceID == of || server == (compute.ServerID{}) && (theirs || d.isOurs(cred.ProjectID))) {
			out = append(out, d.port())
		}
	}
	slices.SortFunc(out, func(a, b port.Port) int { return compareIDs(a.ID.UUID, b.ID.UUID) })
	return out, err
}
