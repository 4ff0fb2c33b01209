package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"strongroom/api/fault"
	"strongroom/api/microversion"
	"strongroom/api/policy"
	"strongroom/api/validation"
	"strongroom/compute"
	"strongroom/schema"
)

const (
	groupRule      = "os_compute_api:os-server-groups:"
	ruleAllGroups  = groupRule + "index:all_projects"
	ruleShowGroup  = groupRule + "show"
	ruleDropGroup  = groupRule + "delete"
	ruleListGroups = groupRule + "index"
)

// The versions that changed server groups.
const (
	groupOwners  microversion.Version = 13 // says whose a group is
	groupsSoft   microversion.Version = 15 // soft policies
	groupsRuled  microversion.Version = 64 // one policy and its rules
	groupsStrict microversion.Version = 75
)

// serverGroups are groups of servers that are together on one host, or apart. The claims of
// hosts see to it.
func (a *API) serverGroups() Resource {
	const (
		create = groupRule + "create"
		path   = "/os-server-groups"
		one    = path + "/:id"
	)
	return Resource{
		Rules: policy.Rules{
			create: policy.ProjectMemberOrAdmin, ruleDropGroup: policy.ProjectMemberOrAdmin,
			ruleShowGroup: policy.ProjectReaderOrAdmin, ruleListGroups: policy.ProjectReaderOrAdmin, ruleAllGroups: policy.Admin,
		},
		Routes: []Route{
			{Method: http.MethodGet, Path: path, Rule: ruleListGroups, Query: groupQuery, Handle: a.listGroups},
			{Method: http.MethodGet, Path: one, Handle: a.showServerGroup},
			{Method: http.MethodPost, Path: path, Rule: create, Body: groupBody, Handle: a.createServerGroup},
			{Method: http.MethodDelete, Path: one, Status: http.StatusNoContent, Handle: a.deleteServerGroup},
		},
	}
}

var groupBody = validation.Since(func(v microversion.Version) validation.Schema {
	policies := []string{string(compute.GroupAntiAffinity), string(compute.GroupAffinity)}
	if v >= groupsSoft {
		policies = append(policies, string(compute.GroupSoftAntiAffinity), string(compute.GroupSoftAffinity))
	}
	p := validation.Properties{"name": validation.Name}
	required := []string{"name", "policies"}
	if v >= groupsRuled {
		required[1] = "policy"
		p["policy"] = validation.Enum(policies...)
		p["rules"] = validation.Object(nil, validation.Properties{"max_server_per_host": validation.Positive})
	} else {
		p["policies"] = validation.Schema{"type": "array", "items": validation.Enum(policies...), "uniqueItems": true, "minItems": 1, "maxItems": 1}
	}
	return validation.Object([]string{"server_group"}, validation.Properties{"server_group": validation.Object(required, p)})
}, microversion.Min, groupsSoft, groupsRuled)

var groupQuery = validation.Since(func(v microversion.Version) validation.Schema {
	p := validation.Properties{
		"all_projects": validation.Repeated(validation.Text),
		"limit":        validation.Repeated(validation.NonNegative), "offset": validation.Repeated(validation.NonNegative),
	}
	if v >= groupsStrict {
		return validation.Object(nil, p)
	}
	return validation.Open(p)
}, microversion.Min, groupsStrict)

func (a *API) createServerGroup(r *Request) (any, error) {
	var body struct {
		Group struct {
			Name     string
			Policy   compute.GroupPolicy
			Policies []compute.GroupPolicy
			Rules    struct {
				Most *validation.Integer `json:"max_server_per_host"`
			}
		} `json:"server_group"`
	}
	if err := r.Decode(&body); err != nil {
		return nil, err
	}
	in := body.Group
	if len(in.Policies) > 0 {
		in.Policy = in.Policies[0]
	}
	row := schema.InsertServerGroupParams{
		ID: compute.GroupID{UUID: r.ID.Derive("server_group")}, ProjectID: r.ProjectID(), UserID: r.UserID(), Name: in.Name, Policy: in.Policy,
	}
	if in.Rules.Most != nil {
		if in.Policy != compute.GroupAntiAffinity {
			return nil, fault.BadRequest("Only anti-affinity policy supports rules.")
		}
		most := int32(min(int64(*in.Rules.Most), validation.MaxInt))
		row.MaxPerHost = &most
	}
	quota, err := a.quotaOf(r.Context(), row.ProjectID)
	if err != nil {
		return nil, err
	}
	var group schema.ServerGroup
	err = a.transact(r.Context(), func(q *schema.Queries) (err error) {
		if err := checkGroupQuota(r.Context(), q, quota.Quota, row.ProjectID); err != nil {
			return err
		}
		group, err = q.InsertServerGroup(r.Context(), row)
		return err
	})
	if err != nil {
		return nil, err
	}
	return map[string]any{"server_group": viewGroup(r.Version, group, nil)}, nil
}

// checkGroupQuota asks the quota. The project's lock is held until the transaction ends.
func checkGroupQuota(ctx context.Context, q *schema.Queries, quota compute.Quota, project string) error {
	if quota.Groups < 0 {
		return nil
	}
	if err := lockQuota(ctx, q, project); err != nil {
		return err
	}
	n, err := q.CountServerGroups(ctx, project)
	if err == nil && n >= quota.Groups {
		err = fault.Forbidden("Quota exceeded, too many server groups.")
	}
	return err
}

func (a *API) listGroups(r *Request) (any, error) {
	project := r.ProjectID()
	page := schema.ListServerGroupsParams{ProjectID: &project, Most: int32(r.Limit()), Beyond: int32(r.Offset())}
	if r.Query.Has("all_projects") && r.IsAdmin() {
		if err := r.Enforce(ruleAllGroups); err != nil {
			return nil, err
		}
		page.ProjectID = nil
	}
	rows, err := a.db.ListServerGroups(r.Context(), page)
	if err != nil {
		return nil, err
	}
	members, err := a.groupMembers(r, rows...)
	if err != nil {
		return nil, err
	}
	groups := make([]map[string]any, len(rows))
	for i, row := range rows {
		groups[i] = viewGroup(r.Version, row, members[row.ID])
	}
	return map[string]any{"server_groups": groups}, nil
}

func (a *API) showServerGroup(r *Request) (any, error) {
	group, err := a.findServerGroup(r, r.Param("id"))
	if err != nil {
		return nil, err
	}
	if err := r.EnforceOn(ruleShowGroup, group.ProjectID, group.UserID); err != nil {
		return nil, err
	}
	members, err := a.groupMembers(r, group)
	if err != nil {
		return nil, err
	}
	return map[string]any{"server_group": viewGroup(r.Version, group, members[group.ID])}, nil
}

// deleteServerGroup deletes a group. Its servers stay where they are.
func (a *API) deleteServerGroup(r *Request) (any, error) {
	group, err := a.findServerGroup(r, r.Param("id"))
	if err != nil {
		return nil, err
	}
	if err := r.EnforceOn(ruleDropGroup, group.ProjectID, group.UserID); err != nil {
		return nil, err
	}
	var rows int64
	err = a.transact(r.Context(), func(q *schema.Queries) (err error) {
		rows, err = q.DeleteServerGroup(r.Context(), group.ID)
		return err
	})
	if err == nil && rows == 0 {
		return nil, fault.NotFound("%s", noGroup(r.Param("id")))
	}
	return nil, err
}

// findServerGroup finds a group that the caller may see. Another project's is not there.
func (a *API) findServerGroup(r *Request, text string) (schema.ServerGroup, error) {
	id, err := uuid.Parse(text)
	if err != nil {
		return schema.ServerGroup{}, fault.NotFound("%s", noGroup(text))
	}
	group, err := a.db.FindServerGroup(r.Context(), compute.GroupID{UUID: id})
	if errors.Is(err, pgx.ErrNoRows) || err == nil && group.ProjectID != r.ProjectID() && !r.IsAdmin() {
		return schema.ServerGroup{}, fault.NotFound("%s", noGroup(text))
	}
	return group, err
}

func noGroup(id string) string { return "Instance group " + id + " could not be found." }

func (a *API) groupMembers(r *Request, groups ...schema.ServerGroup) (map[compute.GroupID][]compute.ServerID, error) {
	ids := make([]uuid.UUID, len(groups))
	for i, g := range groups {
		ids[i] = g.ID.UUID
	}
	rows, err := a.db.GroupMembers(r.Context(), ids)
	members := map[compute.GroupID][]compute.ServerID{}
	for _, row := range rows {
		members[*row.GroupID] = append(members[*row.GroupID], row.ServerID)
	}
	return members, err
}

func viewGroup(v microversion.Version, g schema.ServerGroup, members []compute.ServerID) map[string]any {
	view := map[string]any{"id": g.ID, "name": g.Name, "members": orNone(members)}
	if v >= groupsRuled {
		rules := map[string]any{}
		if g.MaxPerHost != nil {
			rules["max_server_per_host"] = *g.MaxPerHost
		}
		view["policy"], view["rules"] = g.Policy, rules
	} else {
		view["policies"], view["metadata"] = []compute.GroupPolicy{g.Policy}, map[string]any{}
	}
	if v >= groupOwners {
		view["project_id"], view["user_id"] = g.ProjectID, g.UserID
	}
	return view
}
