package neutron

import (
	"context"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/quotas"

	"strongroom/activities/openstack"
	"strongroom/activities/port"
	"strongroom/compute"
)

var _ port.Quotas = (*Service)(nil)

// PortsLeft implements port.Quotas. Neutron tells each user of his own project, where it has the extension
// quota_details.
func (s *Service) PortsLeft(ctx context.Context, cred compute.Credential) (int, error) {
	client, err := s.client(ctx, cred)
	if err != nil {
		return 0, err
	}
	found, err := quotas.GetDetail(ctx, client, cred.ProjectID).Extract()
	if err != nil {
		return 0, openstack.Error(err, "look at the quota of ports")
	}
	p := found.Port
	if p.Limit < 0 {
		return port.Unlimited, nil
	}
	return max(0, p.Limit-p.Used-p.Reserved), nil
}
