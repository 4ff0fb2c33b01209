package neutron

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"strongroom/activities/openstack"
	"strongroom/activities/port"
	"strongroom/compute"
)

var _ port.SecurityGroups = (*Service)(nil)

// ServerGroups implements port.SecurityGroups.
func (s *Service) ServerGroups(ctx context.Context, cred compute.Credential, server compute.ServerID) ([]compute.SecurityGroup, error) {
	client, err := s.client(ctx, cred)
	if err != nil {
		return nil, err
	}
	has, err := portsOf(ctx, client, cred, server)
	if err != nil || len(has) == 0 {
		return nil, err
	}
	pages, err := groups.List(client, groups.ListOpts{ProjectID: cred.ProjectID}).AllPages(ctx)
	var all []groups.SecGroup
	if err == nil {
		all, err = groups.ExtractGroups(pages)
	}
	if err != nil {
		return nil, openstack.Error(err, "list security groups")
	}
	var out []compute.SecurityGroup
	for _, g := range all {
		view := viewGroup(g, all)
		for _, d := range has {
			if slices.Contains(d.Groups, view.ID) {
				view.Ports = append(view.Ports, d.ID)
			}
		}
		if len(view.Ports) > 0 {
			out = append(out, view)
		}
	}
	return out, nil
}

// viewGroup is a group as the api shows it; those that its rules name are among all, or another project's.
func viewGroup(g groups.SecGroup, all []groups.SecGroup) compute.SecurityGroup {
	out := compute.SecurityGroup{Name: g.Name, Description: g.Description, ProjectID: g.ProjectID}
	_ = out.ID.UnmarshalText([]byte(g.ID)) // else it is no group of a port
	for _, rule := range g.Rules {
		if rule.Direction != "ingress" {
			continue
		}
		one := compute.SecurityGroupRule{ID: rule.ID, Protocol: strings.ToLower(rule.Protocol), Prefix: rule.RemoteIPPrefix}
		if rule.PortRangeMin != 0 || rule.PortRangeMax != 0 {
			one.From, one.To = &rule.PortRangeMin, &rule.PortRangeMax
		}
		if rule.RemoteGroupID != "" {
			at := slices.IndexFunc(all, func(o groups.SecGroup) bool { return o.ID == rule.RemoteGroupID })
			if at < 0 {
				continue // Nova leaves out what it cannot name
			}
			one.Group, one.Project = all[at].Name, all[at].ProjectID
		}
		out.Rules = append(out.Rules, one)
	}
	return out
}

// AddGroup implements port.SecurityGroups.
func (s *Service) AddGroup(ctx context.Context, cred compute.Credential, server compute.ServerID, name string) error {
	_, err := s.regroup(ctx, cred, server, name, func(d document, id port.GroupID) ([]port.GroupID, error) {
		if len(d.FixedIPs) == 0 || d.Security != nil && !*d.Security {
			return nil, port.Ungroupable()
		}
		if slices.Contains(d.Groups, id) {
			return d.Groups, nil
		}
		return append(slices.Clone(d.Groups), id), nil
	})
	return err
}

// RemoveGroup implements port.SecurityGroups.
func (s *Service) RemoveGroup(ctx context.Context, cred compute.Credential, server compute.ServerID, name string) error {
	changed, err := s.regroup(ctx, cred, server, name, func(d document, id port.GroupID) ([]port.GroupID, error) {
		return slices.DeleteFunc(slices.Clone(d.Groups), func(g port.GroupID) bool { return g == id }), nil
	})
	if err == nil && changed == 0 {
		err = port.NotAssociated(name, server)
	}
	return err
}

// regroup changes the groups of each of a server's ports as choose says, and tells how many changed.
func (s *Service) regroup(ctx context.Context, cred compute.Credential, server compute.ServerID, name string,
	choose func(document, port.GroupID) ([]port.GroupID, error),
) (changed int, err error) {
	client, err := s.client(ctx, cred)
	if err != nil {
		return 0, err
	}
	ids, err := s.Groups(ctx, cred, []string{name})
	if compute.Is(err, compute.NotFound) {
		err = port.NotInProject(name, cred.ProjectID)
	}
	if err != nil {
		return 0, err
	}
	has, err := portsOf(ctx, client, cred, server)
	if err == nil && len(has) == 0 {
		err = compute.HasNoPorts(server)
	}
	if err != nil {
		return 0, err
	}
	for _, d := range has {
		did, err := setGroups(ctx, client, d, func(d document) ([]port.GroupID, error) { return choose(d, ids[0]) })
		if err != nil {
			return changed, err
		}
		if did {
			changed++
		}
	}
	return changed, nil
}

// setGroups changes the groups of a port that nobody changes at that moment.
func setGroups(ctx context.Context, client *gophercloud.ServiceClient, d document, choose func(document) ([]port.GroupID, error)) (changed bool, err error) {
	for range attempts {
		want, err := choose(d)
		if err != nil || slices.Equal(want, d.Groups) {
			return false, err
		}
		texts := make([]string, len(want))
		for i, g := range want {
			texts[i] = g.String()
		}
		err = ports.Update(ctx, client, d.ID.String(), ports.UpdateOpts{SecurityGroups: &texts, RevisionNumber: &d.Revision}).Err
		switch {
		case err == nil:
			return true, nil
		case gophercloud.ResponseCodeIs(err, http.StatusBadRequest):
			return false, port.Ungroupable()
		case !gophercloud.ResponseCodeIs(err, http.StatusPreconditionFailed):
			return false, openstack.Error(err, fmt.Sprintf("change the security groups of port %s", d.ID))
		}
		if d, err = get(ctx, client, d.ID); err != nil {
			return false, err
		}
	}
	return false, compute.Errorf(compute.Unavailable, "port %s is changed again and again", d.ID)
}

// portsOf gives a server's ports in the credential's project, as its user sees them.
func portsOf(ctx context.Context, client *gophercloud.ServiceClient, cred compute.Credential, server compute.ServerID) ([]document, error) {
	all, err := list(ctx, client, ports.ListOpts{DeviceID: server.String(), ProjectID: cred.ProjectID})
	return slices.DeleteFunc(all, func(d document) bool { return d.DeviceID != server.String() || d.ProjectID != cred.ProjectID }), err
}
