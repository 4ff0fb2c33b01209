// Package local is a port.Service of strongroom's own: ports are rows of its database, on the networks
// that the configuration names. A project sees those that are its own or everybody's.
//
// A network has one range of IPv4 addresses, and a port's hardware address follows from its address,
// so that DHCP knows all of both beforehand. Each project has one security group, which lets
// everything pass; hosts drop what a guest sends with addresses that are not its port's.
package local

import (
	"context"
	"net/netip"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"strongroom/activities/port"
	"strongroom/compute"
	"strongroom/schema"
	"strongroom/schema/fence"
)

// Service is a port.Service on the networks of the configuration.
type Service struct {
	Pool       *pgxpool.Pool
	Configured []Network // as CheckAll lets them pass
	Quota      int       // of ports of a project; negative: none
}

var _ port.Service = (*Service)(nil)

// find gives a network that the credential's project sees.
func (s *Service) find(cred compute.Credential, id port.NetworkID) (Network, error) {
	if cred.ProjectID == "" {
		return Network{}, forbidden()
	}
	i := slices.IndexFunc(s.Configured, func(n Network) bool { return n.ID == id && n.visible(cred.ProjectID) })
	if i < 0 {
		return Network{}, port.MissingNetwork(id)
	}
	return s.Configured[i], nil
}

// Network implements port.Service.
func (s *Service) Network(_ context.Context, cred compute.Credential, id port.NetworkID) (port.Network, error) {
	n, err := s.find(cred, id)
	if err != nil {
		return port.Network{}, err
	}
	return n.seen(), nil
}

// Networks implements port.Service.
func (s *Service) Networks(_ context.Context, cred compute.Credential) ([]port.Network, error) {
	if cred.ProjectID == "" {
		return nil, forbidden()
	}
	out := []port.Network{}
	for _, n := range s.Configured {
		if n.visible(cred.ProjectID) {
			out = append(out, n.seen())
		}
	}
	slices.SortFunc(out, byID)
	return out, nil
}

// Visible implements port.Service.
func (s *Service) Visible(ctx context.Context, cred compute.Credential) ([]compute.NamedNetwork, error) {
	all, err := s.Networks(ctx, cred)
	out := make([]compute.NamedNetwork, len(all))
	for i, n := range all {
		out[i] = compute.NamedNetwork{ID: n.ID, Name: n.Name}
	}
	return out, err
}

// Groups implements port.Service.
func (s *Service) Groups(_ context.Context, cred compute.Credential, names []string) ([]port.GroupID, error) {
	if cred.ProjectID == "" {
		return nil, forbidden()
	}
	only := group(cred.ProjectID)
	found := make([]port.GroupID, len(names))
	for i, name := range names {
		if name != compute.DefaultGroup && name != only.String() {
			return nil, port.MissingGroup(name)
		}
		found[i] = only
	}
	return found, nil
}

// GroupNames implements port.Service.
func (s *Service) GroupNames(_ context.Context, cred compute.Credential, ids []port.GroupID) (map[port.GroupID]string, error) {
	if cred.ProjectID == "" {
		return nil, forbidden()
	}
	names := map[port.GroupID]string{}
	if only := group(cred.ProjectID); slices.Contains(ids, only) {
		names[only] = compute.DefaultGroup
	}
	return names, nil
}

// all gives the ports of the credential's project by their ids in order; of id, where it is not nil, that port alone.
func (s *Service) all(ctx context.Context, q *schema.Queries, cred compute.Credential, id *uuid.UUID) ([]port.Port, error) {
	if cred.ProjectID == "" {
		return nil, forbidden()
	}
	rows, err := q.ListLocalPorts(ctx, schema.ListLocalPortsParams{ProjectID: cred.ProjectID, ID: id})
	if err != nil {
		return nil, fence.Unavailable(err)
	}
	out := make([]port.Port, len(rows))
	for i, row := range rows {
		if out[i], err = s.port(row); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// port is a row as a port. One of a network that the configuration names no longer is bound to nothing.
func (s *Service) port(row schema.ListLocalPortsRow) (port.Port, error) {
	p := row.LocalPort
	address, err := netip.ParseAddr(p.Address)
	if err != nil {
		return port.Port{}, compute.Errorf(compute.Corrupt, "port %s: its address cannot be read", p.ID)
	}
	out := port.Port{
		ID: p.ID, Name: p.Name, ProjectID: p.ProjectID, Network: p.NetworkID, MAC: p.Mac, Groups: []port.GroupID{group(p.ProjectID)},
		Status: "DOWN", Host: p.Host,
	}
	if p.ServerID != nil {
		out.Device = p.ServerID.String()
	}
	n := Network{ID: p.NetworkID}
	if i := slices.IndexFunc(s.Configured, func(n Network) bool { return n.ID == p.NetworkID }); i >= 0 {
		n = s.Configured[i]
	}
	out.Addresses = []port.Address{{Subnet: n.subnet(), IP: address}}
	if p.Host != "" && n.Bridge != "" {
		out.VIF, out.MTU = n.vif(), n.MTU
		if row.Running {
			out.Status = port.StatusActive
		}
	}
	return out, nil
}

// Get implements port.Service.
func (s *Service) Get(ctx context.Context, cred compute.Credential, id port.ID) (port.Port, error) {
	found, err := s.all(ctx, schema.New(s.Pool), cred, &id.UUID)
	if err != nil {
		return port.Port{}, err
	}
	if len(found) == 0 {
		return port.Port{}, port.Missing(id)
	}
	return found[0], nil
}

// List implements port.Service.
func (s *Service) List(ctx context.Context, cred compute.Credential) ([]port.Port, error) {
	all, err := s.all(ctx, schema.New(s.Pool), cred, nil)
	return slices.DeleteFunc(all, func(p port.Port) bool { return !compute.IsPortName(p.Name) }), err
}

// Attached implements port.Service.
func (s *Service) Attached(ctx context.Context, cred compute.Credential, server compute.ServerID) ([]port.Port, error) {
	all, err := s.all(ctx, schema.New(s.Pool), cred, nil)
	return slices.DeleteFunc(all, func(p port.Port) bool {
		if server != (compute.ServerID{}) {
			return p.Device != server.String()
		}
		return p.Device == "" && !compute.IsPortName(p.Name)
	}), err
}
