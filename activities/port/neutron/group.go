package neutron

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/pagination"

	"strongroom/activities/openstack"
	"strongroom/activities/port"
	"strongroom/compute"
)

// Groups implements port.Service.
func (s *Service) Groups(ctx context.Context, cred compute.Credential, names []string) ([]port.GroupID, error) {
	client, err := s.client(ctx, cred)
	if err != nil {
		return nil, err
	}
	own, err := groupsWith[namedGroup](ctx, client, url.Values{"project_id": {cred.ProjectID}, "fields": idAndName})
	if err != nil {
		return nil, err
	}
	shared, err := groupsByID[namedGroup](ctx, client, idsBeside(own, names), idAndName)
	if err != nil {
		return nil, err
	}
	found := make([]port.GroupID, len(names))
	for i, name := range names {
		matches := 0
		for _, g := range own {
			if g.ID.String() == name {
				found[i], matches = g.ID, 1
				break
			}
			if g.Name == name {
				found[i], matches = g.ID, matches+1
			}
		}
		if at := slices.IndexFunc(shared, func(g namedGroup) bool { return g.ID.String() == name }); at >= 0 {
			found[i], matches = shared[at].ID, 1
		}
		switch {
		case matches == 0:
			return nil, port.MissingGroup(name)
		case matches > 1:
			return nil, port.AmbiguousGroup(name)
		}
	}
	return found, nil
}

// idsBeside gives those of the names that are ids of none of the groups: a group that another project shares has no name here.
func idsBeside(own []namedGroup, names []string) (ids []port.GroupID) {
	for _, name := range names {
		var id port.GroupID
		if id.UnmarshalText([]byte(name)) == nil && !slices.ContainsFunc(own, func(g namedGroup) bool { return g.ID == id }) {
			ids = append(ids, id)
		}
	}
	return ids
}

// GroupNames implements port.Service.
func (s *Service) GroupNames(ctx context.Context, cred compute.Credential, ids []port.GroupID) (map[port.GroupID]string, error) {
	client, err := s.client(ctx, cred)
	if err != nil {
		return nil, err
	}
	names := map[port.GroupID]string{}
	told, err := groupsByID[namedGroup](ctx, client, ids, idAndName)
	for _, g := range told {
		names[g.ID] = g.Name
	}
	return names, err
}

// namedGroup is a security group as Neutron lists it, where it is asked for idAndName.
type namedGroup struct {
	ID   port.GroupID `json:"id"`
	Name string       `json:"name"`
}

var idAndName = []string{"id", "name"}

// groupsAtOnce is of how many groups a request asks: their ids are in its address.
const groupsAtOnce = 100

// groupsByID lists those of the security groups that the client sees, with some fields of theirs; nil: all. With an error, too, it may
// give some.
func groupsByID[G any](ctx context.Context, client *gophercloud.ServiceClient, ids []port.GroupID, fields []string) (all []G, err error) {
	for some := range slices.Chunk(ids, groupsAtOnce) {
		which := url.Values{"fields": fields}
		for _, id := range some {
			which.Add("id", id.String())
		}
		more, err := groupsWith[G](ctx, client, which)
		all = append(all, more...)
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// groupsWith lists the security groups that a query asks for.
func groupsWith[G any](ctx context.Context, client *gophercloud.ServiceClient, which url.Values) ([]G, error) {
	pages, err := pagination.NewPager(client, client.ServiceURL("security-groups")+"?"+which.Encode(), func(r pagination.PageResult) pagination.Page {
		return groups.SecGroupPage{LinkedPageBase: pagination.LinkedPageBase{PageResult: r}}
	}).AllPages(ctx)
	var said struct {
		Groups []G `json:"security_groups"`
	}
	if err == nil {
		err = pages.(groups.SecGroupPage).ExtractInto(&said)
	}
	return said.Groups, openstack.Error(err, "list security groups")
}

// ServerGroups implements port.SecurityGroups.
func (s *Service) ServerGroups(ctx context.Context, cred compute.Credential, project string, server compute.ServerID) ([]compute.SecurityGroup, error) {
	client, err := s.client(ctx, cred)
	if err != nil {
		return nil, err
	}
	has, err := portsOf(ctx, client, project, server)
	if err != nil {
		return nil, err
	}
	using := map[port.GroupID][]port.ID{}
	for _, d := range has {
		for _, id := range d.Groups {
			using[id] = append(using[id], d.ID)
		}
	}
	all, err := groupsByID[group](ctx, client, slices.Collect(maps.Keys(using)), nil)
	if err != nil {
		return nil, err
	}
	out, err := shown(ctx, client, all)
	for i, g := range out {
		out[i].Ports = using[g.ID]
	}
	slices.SortFunc(out, func(a, b compute.SecurityGroup) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), compareIDs(a.ID.UUID, b.ID.UUID))
	})
	return out, err
}

// AddGroup implements port.SecurityGroups.
func (s *Service) AddGroup(ctx context.Context, cred compute.Credential, server compute.ServerID, name string) error {
	_, err := s.regroup(ctx, cred, server, name, func(d document, id port.GroupID) ([]port.GroupID, error) {
		if len(d.FixedIPs) == 0 || isOff(d.Security) {
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
	has, err := portsOf(ctx, client, cred.ProjectID, server)
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

// portsOf gives the ports of a project's server that are the project's, too, as far as the client sees them.
func portsOf(ctx context.Context, client *gophercloud.ServiceClient, project string, server compute.ServerID) ([]document, error) {
	all, err := list(ctx, client, ports.ListOpts{DeviceID: server.String(), ProjectID: project})
	return slices.DeleteFunc(all, func(d document) bool { return d.DeviceID != server.String() || d.ProjectID != project }), err
}
