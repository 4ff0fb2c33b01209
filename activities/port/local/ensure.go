package local

import (
	"context"
	"net/netip"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"strongroom/activities/port"
	"strongroom/compute"
	"strongroom/schema"
	"strongroom/schema/fence"
)

// Ensure implements port.Service.
func (s *Service) Ensure(ctx context.Context, in port.EnsureInput) (port.Port, error) {
	if err := in.Check(); err != nil {
		return port.Port{}, err
	}
	n, err := s.find(in.Credential, in.Network)
	if err == nil {
		err = checkGroups(in.Credential.ProjectID, in.Groups)
	}
	if err == nil && in.Address.IsValid() && !slices.Contains(n.Addresses(), in.Address) {
		err = port.Outside(in.Address.String(), in.Network)
	}
	if err != nil {
		return port.Port{}, err
	}
	var made port.Port
	err = pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error {
		q := schema.New(tx)
		if err := q.LockLocalPorts(ctx); err != nil {
			return err
		}
		found, err := s.named(ctx, q, in)
		if err != nil || found != nil {
			if found != nil {
				made = *found
			}
			return err
		}
		if err := s.insert(ctx, q, n, in); err != nil {
			return err
		}
		if found, err = s.named(ctx, q, in); err == nil {
			made = *found
		}
		return err
	})
	return made, fence.Unavailable(err)
}

// named gives the project's port of the name; nil: there is none. Forbidden: there is none, and it may have
// no more.
func (s *Service) named(ctx context.Context, q *schema.Queries, in port.EnsureInput) (*port.Port, error) {
	all, err := s.all(ctx, q, in.Credential, nil)
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		if p.Name == in.Name {
			return &p, nil
		}
	}
	if s.Quota >= 0 && len(all) >= s.Quota {
		return nil, port.OverQuota()
	}
	return nil, nil //nolint:nilnil // none is no error
}

// insert makes the port, with the address that it asks for or the first that is free.
func (s *Service) insert(ctx context.Context, q *schema.Queries, n Network, in port.EnsureInput) error {
	taken, err := q.ListLocalAddresses(ctx, n.Prefix.String())
	if err != nil {
		return err
	}
	address := in.Address
	switch {
	case !address.IsValid():
		address, err = n.free(taken)
	case slices.Contains(taken, address.String()):
		err = port.Taken(address)
	}
	if err != nil {
		return err
	}
	return q.InsertLocalPort(ctx, row(in, address))
}

// row is a new port. Its id is another one for each address and name.
func row(in port.EnsureInput, address netip.Addr) schema.InsertLocalPortParams {
	return schema.InsertLocalPortParams{
		ID: port.ID{UUID: uuid.New()}, ProjectID: in.Credential.ProjectID, Name: in.Name, NetworkID: in.Network,
		Address: address.String(), Mac: MAC(address), ServerID: &in.Server,
	}
}

// Remove implements port.Service.
func (s *Service) Remove(ctx context.Context, in port.RemoveInput) error {
	if !compute.IsPortName(in.Name) {
		return compute.Errorf(compute.Invalid, "%q is no name of a port that strongroom makes", in.Name)
	}
	if in.Credential.ProjectID == "" {
		return forbidden()
	}
	doomed := schema.DeleteLocalPortParams{ProjectID: in.Credential.ProjectID, Name: in.Name}
	if in.ID != nil {
		doomed.ID = &in.ID.UUID
	}
	return fence.Unavailable(schema.New(s.Pool).DeleteLocalPort(ctx, doomed))
}
