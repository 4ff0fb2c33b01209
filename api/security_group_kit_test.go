package api_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"

	"strongroom/compute"
)

// ownGroups are the security groups of a network service whose users make some.
type ownGroups struct {
	groups []compute.SecurityGroup
	refuse error
	ofRule error                     // why it makes no rule
	of     *string                   // the project whose groups were asked for last
	made   compute.SecurityGroupRule // the rule that was asked for last
}

func (o *ownGroups) ListGroups(_ context.Context, _ compute.Credential, project string) ([]compute.SecurityGroup, error) {
	o.of = &project
	return slices.DeleteFunc(slices.Clone(o.groups), func(g compute.SecurityGroup) bool { return project != "" && g.ProjectID != project }), o.refuse
}

func (o *ownGroups) find(id compute.SecurityGroupID) (*compute.SecurityGroup, error) {
	i := slices.IndexFunc(o.groups, func(g compute.SecurityGroup) bool { return g.ID == id })
	switch {
	case o.refuse != nil:
		return &compute.SecurityGroup{}, o.refuse
	case i < 0:
		return &compute.SecurityGroup{}, compute.Errorf(compute.NotFound, "Security group %s not found.", id)
	}
	return &o.groups[i], nil
}

func (o *ownGroups) GetGroup(_ context.Context, _ compute.Credential, id compute.SecurityGroupID) (compute.SecurityGroup, error) {
	g, err := o.find(id)
	return *g, err
}

func (o *ownGroups) CreateGroup(_ context.Context, cred compute.Credential, name, description string) (compute.SecurityGroup, error) {
	g := compute.SecurityGroup{ID: compute.SecurityGroupID{UUID: uuid.New()}, Name: name, Description: description, ProjectID: cred.ProjectID}
	o.groups = append(o.groups, g)
	return g, o.refuse
}

func (o *ownGroups) UpdateGroup(_ context.Context, _ compute.Credential, id compute.SecurityGroupID, name, description string) (compute.SecurityGroup, error) {
	g, err := o.find(id)
	g.Name, g.Description = name, description
	return *g, err
}

func (o *ownGroups) DeleteGroup(_ context.Context, _ compute.Credential, id compute.SecurityGroupID) error {
	_, err := o.find(id)
	o.groups = slices.DeleteFunc(o.groups, func(g compute.SecurityGroup) bool { return g.ID == id })
	return err
}

func (o *ownGroups) CreateRule(_ context.Context, _ compute.Credential, id compute.SecurityGroupID, rule compute.SecurityGroupRule) (compute.SecurityGroupRule, error) {
	if o.ofRule != nil {
		return compute.SecurityGroupRule{}, o.ofRule
	}
	o.made = rule
	rule.ID = uuid.NewString()
	g, err := o.find(id)
	g.Rules = append(g.Rules, rule)
	rule.Group, rule.Project, rule.GroupID = "", "", nil
	return rule, err
}

func (o *ownGroups) DeleteRule(_ context.Context, _ compute.Credential, id uuid.UUID) error {
	for i := range o.groups {
		g := &o.groups[i]
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
