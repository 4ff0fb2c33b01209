package local

import (
	"context"
	"errors"
	"net/netip"
	"slices"

	"github.com/jackc/pgx/v5"

	"strongroom/activities/port"
	"strongroom/compute"
	"strongroom/schema"
	"strongroom/schema/fence"
)

var (
	_ port.Quotas    = (*Service)(nil)
	_ port.Limits    = (*Service)(nil)
	_ port.Addresses = (*Service)(nil)
)

// PortsLeft implements port.Quotas.
func (s *Service) PortsLeft(ctx context.Context, cred compute.Credential) (int, error) {
	if s.Quota < 0 {
		return port.Unlimited, nil
	}
	all, err := s.all(ctx, schema.New(s.Pool), cred, nil)
	return max(0, s.Quota-len(all)), err
}

// AddressesLeft implements port.Limits.
func (s *Service) AddressesLeft(ctx context.Context, cred compute.Credential, id port.NetworkID) (int, error) {
	n, err := s.find(cred, id)
	if err != nil {
		return 0, err
	}
	taken, err := schema.New(s.Pool).ListLocalAddresses(ctx, n.Prefix.String())
	left := 0
	for _, a := range n.Addresses() {
		if n.given(a) && !slices.Contains(taken, a.String()) {
			left++
		}
	}
	return left, fence.Unavailable(err)
}

// Holder implements port.Addresses.
func (s *Service) Holder(ctx context.Context, cred compute.Credential, id port.NetworkID, address netip.Addr) (*port.Port, error) {
	if _, err := s.find(cred, id); err != nil {
		return nil, err
	}
	row, err := schema.New(s.Pool).LocalPortAt(ctx, schema.LocalPortAtParams{NetworkID: id, Address: address.String()})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, nil //nolint:nilnil // none is no error
	case err != nil:
		return nil, fence.Unavailable(err)
	}
	p, err := s.port(schema.ListLocalPortsRow{LocalPort: row})
	return &p, err
}
