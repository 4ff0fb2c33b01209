package neutron

import (
	"context"
	"net/netip"
	"slices"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"strongroom/activities/port"
	"strongroom/compute"
)

var _ port.Addresses = (*Service)(nil)

// Holder implements port.Addresses. strongroom's own user looks: users see no ports of other projects.
func (s *Service) Holder(ctx context.Context, _ compute.Credential, id port.NetworkID, address netip.Addr) (*port.Port, error) {
	client, err := s.client(ctx, own)
	if err != nil {
		return nil, err
	}
	all, err := list(ctx, client, ports.ListOpts{NetworkID: id.String(), FixedIPs: []ports.FixedIPOpts{{IPAddress: address.String()}}})
	for _, d := range all {
		if d.Network == id && slices.ContainsFunc(d.FixedIPs, func(ip fixedIP) bool { return ip.IP == address }) {
			p := d.port()
			return &p, err
		}
	}
	return nil, err
}
