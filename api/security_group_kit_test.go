package api_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/api"
	"strongroom/compute"
)

// heard notes with whose credentials a service is asked.
type heard struct {
	mu sync.Mutex
	by []compute.Credential
}

// enter lets one in at a time.
func (h *heard) enter(cred compute.Credential) (leave func()) {
	h.mu.Lock()
	h.by = append(h.by, cred)
	return h.mu.Unlock
}

// requireBy checks that the service was asked since it was checked last, and by one user of a project alone.
func (h *heard) requireBy(t *testing.T, project, user, what string) {
	t.Helper()
	require.NotEmpty(t, h.by, what)
	for _, cred := range h.by {
		require.Equal(t, []string{project, user}, []string{cred.ProjectID, cred.UserID}, what)
	}
	h.by = nil
}

// ownGroups are the security groups of a network service whose users make some. A project sees its own, and those that are shared.
type ownGroups struct {
	heard

	groups []compute.SecurityGroup
	shared []compute.SecurityGroupID
	refuse error
	ofRule error                     // why it makes no rule
	of     *string                   // the project whose groups were asked for last
	made   compute.SecurityGroupRule // the rule that was asked for last
}

func (o *ownGroups) ListGroups(_ context.Context, cred compute.Credential, project string) (all []compute.SecurityGroup, err error) {
	defer o.enter(cred)()
	o.of = &project
	for _, g := range o.groups {
		if project == "" || g.ProjectID == project && o.sees(cred, g) {
			all = append(all, asItIs(g))
		}
	}
	return all, o.refuse
}

// sees reports whether a credential's project sees a group.
func (o *ownGroups) sees(cred compute.Credential, g compute.SecurityGroup) bool {
	return g.ProjectID == cred.ProjectID || slices.Contains(o.shared, g.ID)
}

// asItIs is a group as it is now, whatever becomes of it.
func asItIs(g compute.SecurityGroup) compute.SecurityGroup {
	g.Rules = slices.Clone(g.Rules)
	return g
}

func (o *ownGroups) find(cred compute.Credential, id compute.SecurityGroupID) (*compute.SecurityGroup, error) {
	i := slices.IndexFunc(o.groups, func(g compute.SecurityGroup) bool { return g.ID == id && o.sees(cred, g) })
	switch {
	case o.refuse != nil:
		return &compute.SecurityGroup{}, o.refuse
	case i < 0:
		return &compute.SecurityGroup{}, compute.Errorf(compute.NotFound, "Security group %s not found.", id)
	}
	return &o.groups[i], nil
}

func (o *ownGroups) GetGroup(_ context.Context, cred compute.Credential, id compute.SecurityGroupID) (compute.SecurityGroup, error) {
	defer o.enter(cred)()
	g, err := o.find(cred, id)
	return asItIs(*g), err
}

func (o *ownGroups) CreateGroup(_ context.Context, cred compute.Credential, name, description string) (compute.SecurityGroup, error) {
	defer o.enter(cred)()
	g := compute.SecurityGroup{ID: compute.SecurityGroupID{UUID: uuid.New()}, Name: name, Description: description, ProjectID: cred.ProjectID}
	o.groups = append(o.groups, g)
	return g, o.refuse
}

func (o *ownGroups) UpdateGroup(_ context.Context, cred compute.Credential, id compute.SecurityGroupID, name, description string) (compute.SecurityGroup, error) {
	defer o.enter(cred)()
	g, err := o.find(cred, id)
	g.Name, g.Description = name, description
	return asItIs(*g), err
}

func (o *ownGroups) DeleteGroup(_ context.Context, cred compute.Credential, id compute.SecurityGroupID) error {
	defer o.enter(cred)()
	if _, err := o.find(cred, id); err != nil {
		return err
	}
	o.groups = slices.DeleteFunc(o.groups, func(g compute.SecurityGroup) bool { return g.ID == id })
	return nil
}

func (o *ownGroups) CreateRule(_ context.Context, cred compute.Credential, id compute.SecurityGroupID, rule compute.SecurityGroupRule) (compute.SecurityGroupRule, error) {
	defer o.enter(cred)()
	if o.ofRule != nil {
		return compute.SecurityGroupRule{}, o.ofRule
	}
	o.made = rule
	rule.ID = uuid.NewString()
	g, err := o.find(cred, id)
	g.Rules = append(g.Rules, rule)
	rule.Group, rule.Project, rule.GroupID = "", "", nil
	return rule, err
}

func (o *ownGroups) DeleteRule(_ context.Context, cred compute.Credential, id uuid.UUID) error {
	defer o.enter(cred)()
	for i := range o.groups {
		g := &o.groups[i]
		if !o.sees(cred, *g) {
			continue
		}
		if at := slices.IndexFunc(g.Rules, func(r compute.SecurityGroupRule) bool { return r.ID == id.String() }); at >= 0 {
			g.Rules = slices.Delete(g.Rules, at, at+1)
			return o.refuse
		}
	}
	return compute.Errorf(compute.NotFound, "Security group rule %s not found.", id)
}

// named gives a group of a project's.
func (o *ownGroups) named(name, project string) compute.SecurityGroup {
	g := compute.SecurityGroup{ID: compute.SecurityGroupID{UUID: uuid.New()}, Name: name, ProjectID: project}
	o.groups = append(o.groups, g)
	return g
}

// plant gives each project one group, with a rule of the same id.
func (o *ownGroups) plant(projects ...*tenant) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.groups = nil
	for _, p := range projects {
		o.groups = append(o.groups, compute.SecurityGroup{
			ID: p.secured, Name: p.mark, Description: p.mark, ProjectID: p.project,
			Rules: []compute.SecurityGroupRule{{ID: p.secured.String(), Group: p.mark, Project: p.project}},
		})
	}
}

// portless is a network service of which projects have security groups, and no network.
type portless struct{ *ownGroups }

func (portless) Plan(_ context.Context, _ compute.Credential, in compute.NetworkRequest) ([]compute.Network, int, error) {
	if len(in.Networks) > 0 || in.Required {
		return nil, 0, compute.Errorf(compute.Invalid, "There is no such network.")
	}
	return nil, in.Most, nil
}

func (portless) Renew(context.Context, string, compute.ServerID, []compute.Network) ([]compute.Network, error) {
	return nil, nil
}

func (portless) GroupNames(context.Context, compute.Credential, []compute.SecurityGroupID) (map[compute.SecurityGroupID]string, error) {
	return map[compute.SecurityGroupID]string{}, nil
}

func (portless) ServerGroups(context.Context, compute.Credential, string, compute.ServerID) ([]compute.SecurityGroup, error) {
	return nil, nil
}

func (portless) AddGroup(_ context.Context, _ compute.Credential, server compute.ServerID, _ string) error {
	return compute.HasNoPorts(server)
}

func (portless) RemoveGroup(_ context.Context, _ compute.Credential, server compute.ServerID, _ string) error {
	return compute.HasNoPorts(server)
}

func (portless) Visible(context.Context, compute.Credential) ([]compute.NamedNetwork, error) {
	return nil, nil
}

func (portless) Network(_ context.Context, _ compute.Credential, id compute.NetworkID) (compute.NamedNetwork, error) {
	return compute.NamedNetwork{}, compute.Errorf(compute.NotFound, "Network %s could not be found.", id)
}

func (p portless) OwnGroups() api.OwnGroups { return p.ownGroups }

// groupRoutes are all routes of security groups, each with a body that is right.
func groupRoutes(id string) map[string]string {
	const group = `{"security_group":{"name":"web","description":"of the shop"}}`
	return map[string]string{
		"GET /os-security-groups": "", "POST /os-security-groups": group,
		"GET /os-security-groups/" + id: "", "PUT /os-security-groups/" + id: group, "DELETE /os-security-groups/" + id: "",
		"POST /os-security-group-rules":         `{"security_group_rule":{"parent_group_id":"` + id + `","ip_protocol":"tcp","from_port":22,"to_port":22}}`,
		"DELETE /os-security-group-rules/" + id: "",
	}
}

// rulesOf are a group's, as the group is shown.
func (c *cloud) rulesOf(t *testing.T, g compute.SecurityGroup) []any {
	t.Helper()
	return c.do(t, member, "GET", fmt.Sprint("/os-security-groups/", g.ID), "").ok(200).get("security_group", "rules").([]any)
}
