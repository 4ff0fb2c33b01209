package neutron

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/rules"

	"strongroom/activities/openstack"
	"strongroom/activities/port"
	"strongroom/compute"
)

var _ port.OwnGroups = (*Service)(nil)

// ListGroups implements port.OwnGroups.
func (s *Service) ListGroups(ctx context.Context, cred compute.Credential, project string) ([]compute.SecurityGroup, error) {
	client, err := s.client(ctx, cred)
	if err != nil {
		return nil, err
	}
	which := url.Values{}
	if project != "" {
		which.Set("project_id", project)
	}
	all, err := groupsWith[group](ctx, client, which)
	if err != nil {
		return nil, err
	}
	return shown(ctx, client, all)
}

// GetGroup implements port.OwnGroups.
func (s *Service) GetGroup(ctx context.Context, cred compute.Credential, id port.GroupID) (compute.SecurityGroup, error) {
	client, err := s.client(ctx, cred)
	if err != nil {
		return compute.SecurityGroup{}, err
	}
	var said oneGroup
	if err := groups.Get(ctx, client, id.String()).ExtractInto(&said); err != nil {
		return compute.SecurityGroup{}, refusedGroup(err, fmt.Sprintf("look at security group %s", id), id)
	}
	all, err := shown(ctx, client, []group{said.Group})
	if err != nil {
		return compute.SecurityGroup{}, err
	}
	return all[0], nil
}

// CreateGroup implements port.OwnGroups. Of the rules that Neutron gives a new group none names another one.
func (s *Service) CreateGroup(ctx context.Context, cred compute.Credential, name, description string) (compute.SecurityGroup, error) {
	client, err := s.client(ctx, cred)
	if err != nil {
		return compute.SecurityGroup{}, err
	}
	var said oneGroup
	if err := groups.Create(ctx, client, groupFields{name, description}).ExtractInto(&said); err != nil {
		return compute.SecurityGroup{}, conflicting(compute.Forbidden, refusedGroup(err, "make a security group", port.GroupID{}))
	}
	return said.Group.view(map[port.GroupID]group{said.Group.ID: said.Group}), nil
}

// UpdateGroup implements port.OwnGroups.
func (s *Service) UpdateGroup(ctx context.Context, cred compute.Credential, id port.GroupID, name, description string) (compute.SecurityGroup, error) {
	client, err := s.client(ctx, cred)
	if err != nil {
		return compute.SecurityGroup{}, err
	}
	var said oneGroup
	if err := groups.Update(ctx, client, id.String(), groupFields{name, description}).ExtractInto(&said); err != nil {
		return compute.SecurityGroup{}, refusedGroup(err, fmt.Sprintf("change security group %s", id), id)
	}
	all, err := shown(ctx, client, []group{said.Group})
	if err != nil {
		return compute.SecurityGroup{}, err
	}
	return all[0], nil
}

// DeleteGroup implements port.OwnGroups.
func (s *Service) DeleteGroup(ctx context.Context, cred compute.Credential, id port.GroupID) error {
	client, err := s.client(ctx, cred)
	if err != nil {
		return err
	}
	err = groups.Delete(ctx, client, id.String()).ExtractErr()
	return conflicting(compute.Invalid, refusedGroup(err, fmt.Sprintf("remove security group %s", id), id))
}

// CreateRule implements port.OwnGroups.
func (s *Service) CreateRule(ctx context.Context, cred compute.Credential, id port.GroupID, in compute.SecurityGroupRule) (compute.SecurityGroupRule, error) {
	client, err := s.client(ctx, cred)
	if err != nil {
		return compute.SecurityGroupRule{}, err
	}
	var said struct {
		Rule rule `json:"security_group_rule"`
	}
	if err := rules.Create(ctx, client, newRule{id, in}).ExtractInto(&said); err != nil {
		return compute.SecurityGroupRule{}, conflicting(compute.Forbidden, refusedGroup(err, fmt.Sprintf("make a rule of security group %s", id), id))
	}
	return said.Rule.view(), nil
}

// DeleteRule implements port.OwnGroups.
func (s *Service) DeleteRule(ctx context.Context, cred compute.Credential, id uuid.UUID) error {
	client, err := s.client(ctx, cred)
	if err != nil {
		return err
	}
	err = rules.Delete(ctx, client, id.String()).ExtractErr()
	if err = refusedGroup(err, fmt.Sprintf("remove security group rule %s", id), port.GroupID{}); compute.Is(err, compute.NotFound) {
		err = port.MissingRule(id)
	}
	return err
}

// oneGroup is an answer about one group.
type oneGroup struct {
	Group group `json:"security_group"`
}

// groupFields are what users say of a group. gophercloud's own leave out what is empty.
type groupFields struct{ name, description string }

// ToSecGroupCreateMap implements groups.CreateOptsBuilder.
func (f groupFields) ToSecGroupCreateMap() (map[string]any, error) {
	return map[string]any{"security_group": map[string]any{"name": f.name, "description": f.description}}, nil
}

// ToSecGroupUpdateMap implements groups.UpdateOptsBuilder.
func (f groupFields) ToSecGroupUpdateMap() (map[string]any, error) { return f.ToSecGroupCreateMap() }

// newRule is a rule to be made. gophercloud's own leaves out a type or code of ICMP that is 0.
type newRule struct {
	group port.GroupID
	compute.SecurityGroupRule
}

// ToSecGroupRuleCreateMap implements rules.CreateOptsBuilder.
func (r newRule) ToSecGroupRuleCreateMap() (map[string]any, error) {
	out := map[string]any{"security_group_id": r.group.String(), "direction": ingress, "ethertype": rules.EtherType4}
	if prefix, err := netip.ParsePrefix(r.Prefix); err == nil && prefix.Addr().Is6() {
		out["ethertype"] = rules.EtherType6
	}
	if r.Prefix != "" {
		out["remote_ip_prefix"] = r.Prefix
	}
	if r.GroupID != nil {
		out["remote_group_id"] = r.GroupID.String()
	}
	if r.Protocol != "" {
		out["protocol"] = r.Protocol
	}
	if r.From != nil {
		out["port_range_min"] = *r.From
	}
	if r.To != nil {
		out["port_range_max"] = *r.To
	}
	return map[string]any{"security_group_rule": out}, nil
}

// refusedGroup turns a refusal that is about a group into Nova's. The name of Neutron's exception tells apart what has one
// status.
func refusedGroup(err error, what string, id port.GroupID) error {
	switch faultOf(err) {
	case "SecurityGroupInUse":
		return compute.Errorf(compute.Invalid, "Security Group %s in use.", id)
	case "SecurityGroupCannotRemoveDefault":
		return compute.Errorf(compute.Invalid, "Insufficient rights for removing default security group.")
	case "SecurityGroupCannotUpdateDefault":
		return compute.Errorf(compute.Invalid, "Updating default security group not allowed.")
	case "SecurityGroupDefaultAlreadyExists":
		return compute.Errorf(compute.Forbidden, "Default security group already exists.")
	case "SecurityGroupRuleExists":
		return compute.Errorf(compute.Forbidden, "Security group rule already exists.")
	case "OverQuota":
		return compute.Errorf(compute.Forbidden, "Quota exceeded, too many security groups or rules of them.")
	}
	if err = openstack.Error(err, what); compute.Is(err, compute.NotFound) {
		err = port.MissingGroup(id.String())
	}
	return err
}

// conflicting is how a refusal is that is a conflict for another reason than those that have a name here: Nova has no status of its
// own for it.
func conflicting(is compute.Kind, err error) error {
	if compute.Is(err, compute.Conflict) {
		return compute.Errorf(is, "%w", err)
	}
	return err
}
