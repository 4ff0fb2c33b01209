package neutron

import (
	"context"
	"net/netip"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"

	"strongroom/activities/openstack"
	"strongroom/activities/port"
	"strongroom/compute"
)

var _ port.FloatingAddresses = (*Service)(nil)

// Floating implements port.FloatingAddresses.
func (s *Service) Floating(ctx context.Context, ids []port.ID) (all []port.Floating, err error) {
	client, err := s.client(ctx, own)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		pages, err := floatingips.List(client, floatingips.ListOpts{PortID: id.String()}).AllPages(ctx)
		var said struct {
			FloatingIPs []struct {
				IP    netip.Addr  `json:"floating_ip_address"`
				Port  *port.ID    `json:"port_id"`
				Fixed *netip.Addr `json:"fixed_ip_address"`
			} `json:"floatingips"`
		}
		if err == nil {
			err = pages.(floatingips.FloatingIPPage).ExtractInto(&said)
		}
		if err = openstack.Error(err, "list floating addresses"); compute.Is(err, compute.NotFound) {
			return nil, nil // the service has no routers
		}
		if err != nil {
			return nil, err
		}
		for _, f := range said.FloatingIPs {
			if f.Port != nil && *f.Port == id && f.Fixed != nil { // what does not filter gives all
				all = append(all, port.Floating{IP: f.IP, Port: id, Fixed: *f.Fixed})
			}
		}
	}
	return all, nil
}
