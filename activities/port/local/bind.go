package local

import (
	"context"
	"slices"

	"strongroom/activities/port"
	"strongroom/compute"
	"strongroom/schema"
	"strongroom/schema/fence"
)

// pluggable gives the network of a port that is to be bound. NotFound: the port is not the project's; Conflict:
// the host does not have its network.
func (s *Service) pluggable(ctx context.Context, in port.BindInput) (port.Port, Network, error) {
	if err := in.Check(); err != nil {
		return port.Port{}, Network{}, err
	}
	p, err := s.Get(ctx, in.Credential, in.Port)
	if err != nil {
		return port.Port{}, Network{}, err
	}
	n, err := s.find(in.Credential, p.Network)
	if err != nil || !slices.Contains(n.Hosts, in.Host) {
		return p, Network{}, port.VIF{}.CheckBound(in.Port) // it is bound to nothing
	}
	return p, n, nil
}

// Bind implements port.Service.
func (s *Service) Bind(ctx context.Context, in port.BindInput) (port.Port, error) {
	p, _, err := s.pluggable(ctx, in)
	if err == nil {
		err = p.CheckUsable(in.Server)
	}
	if err != nil {
		return port.Port{}, err
	}
	changed, err := schema.New(s.Pool).BindLocalPort(ctx, schema.BindLocalPortParams{
		ServerID: in.Server.UUID, Host: in.Host, ID: in.Port, ProjectID: in.Credential.ProjectID,
	})
	if err != nil {
		return port.Port{}, fence.Unavailable(err)
	}
	bound, err := s.Get(ctx, in.Credential, in.Port)
	if err == nil && changed == 0 { // another server was faster
		err = compute.PortInUse(in.Port)
	}
	return bound, err
}

// Unbind implements port.Service.
func (s *Service) Unbind(ctx context.Context, in port.UnbindInput) error {
	if in.Credential.ProjectID == "" {
		return forbidden()
	}
	return fence.Unavailable(schema.New(s.Pool).UnbindLocalPort(ctx, schema.UnbindLocalPortParams{
		Keep: in.Keep, ID: in.Port, ProjectID: in.Credential.ProjectID, ServerID: in.Server.UUID,
	}))
}

// Prepare implements port.Service.
func (s *Service) Prepare(ctx context.Context, in port.BindInput) (port.VIF, error) {
	_, n, err := s.pluggable(ctx, in)
	if err != nil {
		return port.VIF{}, err
	}
	changed, err := schema.New(s.Pool).PrepareLocalPort(ctx, schema.PrepareLocalPortParams{
		Host: in.Host, ID: in.Port, ProjectID: in.Credential.ProjectID, ServerID: in.Server.UUID,
	})
	if err == nil && changed == 0 {
		err = compute.Errorf(compute.Conflict, "port %s is not one of server %s", in.Port, in.Server)
	}
	return n.vif(), fence.Unavailable(err)
}

// Activate implements port.Service.
func (s *Service) Activate(ctx context.Context, in port.BindInput) error {
	if err := in.Check(); err != nil {
		return err
	}
	p, err := s.Get(ctx, in.Credential, in.Port)
	if err != nil || p.Host == in.Host {
		return err
	}
	changed, err := schema.New(s.Pool).ActivateLocalPort(ctx, schema.ActivateLocalPortParams{
		Host: in.Host, ID: in.Port, ProjectID: in.Credential.ProjectID,
	})
	if err != nil || changed > 0 {
		return fence.Unavailable(err)
	}
	if p, err = s.Get(ctx, in.Credential, in.Port); err == nil && p.Host != in.Host { // else another attempt was faster
		err = compute.Errorf(compute.NotFound, "port %s has no binding to host %s", in.Port, in.Host)
	}
	return err
}

// Withdraw implements port.Service.
func (s *Service) Withdraw(ctx context.Context, in port.BindInput) error {
	if err := in.Check(); err != nil {
		return err
	}
	p, err := s.Get(ctx, in.Credential, in.Port)
	switch {
	case compute.Is(err, compute.NotFound):
		return nil
	case err != nil:
		return err
	case p.Host == in.Host:
		return compute.Errorf(compute.Conflict, "the binding of port %s to host %s is the active one", in.Port, in.Host)
	}
	return fence.Unavailable(schema.New(s.Pool).WithdrawLocalPort(ctx, schema.WithdrawLocalPortParams{
		Host: in.Host, ID: in.Port, ProjectID: in.Credential.ProjectID,
	}))
}
