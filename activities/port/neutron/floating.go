package neutron

import (
	"context"
	"net/netip"
	"net/url"
	"slices"

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
	pages, err := floatingips.List(client, ofPorts(ids)).AllPages(ctx)
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
	for _, f := range said.FloatingIPs {
		if f.Port != nil && f.Fixed != nil && slices.Contains(ids, *f.Port) { // what does not filter gives all
			all = append(all, port.Floating{IP: f.IP, Port: *f.Port, Fixed: *f.Fixed})
		}
	}
	return all, err
}

// ofPorts asks for the addresses of some ports, all at once.
type ofPorts []port.ID

// ToFloatingIPListQuery implements floatingips.ListOptsBuilder.
func (ids ofPorts) ToFloatingIPListQuery() (string, error) {
	q := url.Values{}
	for _, id := range ids {
		q.Add("port_id", id.String())
	}
	return "?" + q.Encode(), nil
}
