package api

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/google/uuid"

	"strongroom/api/fault"
	"strongroom/api/policy"
	"strongroom/api/validation"
	"strongroom/compute"
)

const securityRule = "os_compute_api:os-security-groups:"

// noOwnGroups is the refusal of a network service without them.
const noOwnGroups = "Security groups are not made here: each project has one, default, which lets everything pass. Use Neutron (networks.backend: neutron)."

// onGroups is what is done with the security groups that users make.
type onGroups func(*Request, OwnGroups) (any, error)

// withGroups refuses, with a 404 or 501, where users make no security groups.
func (a *API) withGroups(do onGroups) func(*Request) (any, error) {
	return func(r *Request) (any, error) {
		service, err := a.networkService()
		if err != nil {
			return nil, err
		}
		groups := service.OwnGroups()
		if groups == nil {
			return nil, fault.Errorf(http.StatusNotImplemented, noOwnGroups)
		}
		return do(r, groups)
	}
}

// securityGroups are those of the network service, as Nova shows and changes them to 2.35.
func (a *API) securityGroups() Resource {
	const (
		list, show             = securityRule + "get", securityRule + "show"
		create, update, remove = securityRule + "create", securityRule + "update", securityRule + "delete"
		path, one              = "/os-security-groups", "/os-security-groups/:id"
		readers, members       = policy.ProjectReaderOrAdmin, policy.ProjectMemberOrAdmin
	)
	return Resource{
		Rules: policy.Rules{list: readers, show: readers, create: members, update: members, remove: members},
		Routes: []Route{
			{Method: http.MethodGet, Path: path, Max: proxiesUntil, Rule: list, Query: securityGroupQuery, Handle: a.withGroups(listSecurityGroups)},
			{Method: http.MethodGet, Path: one, Max: proxiesUntil, Rule: show, Handle: a.withGroups(showSecurityGroup)},
			{Method: http.MethodPost, Path: path, Max: proxiesUntil, Rule: create, Body: securityGroupBody, Handle: a.withGroups(createSecurityGroup)},
			{Method: http.MethodPut, Path: one, Max: proxiesUntil, Rule: update, Body: securityGroupBody, Handle: a.withGroups(updateSecurityGroup)},
			{Method: http.MethodDelete, Path: one, Max: proxiesUntil, Rule: remove, Status: http.StatusAccepted, Handle: a.withGroups(deleteSecurityGroup)},
		},
	}
}

var securityGroupQuery = validation.Always(validation.Open(validation.Properties{
	"limit": validation.Repeated(validation.NonNegative), "offset": validation.Repeated(validation.NonNegative),
	"all_tenants": validation.Repeated(validation.Text),
}))

var securityGroupText = validation.Schema{"type": "string", "minLength": 0, "maxLength": 255}

var (
	securityGroupProperties = validation.Properties{"name": securityGroupText, "description": securityGroupText}
	securityGroupBody       = validation.Always(within("security_group", []string{"name", "description"}, securityGroupProperties))
)

// within is an object below a key. Both may have more than is asked for, as these bodies may in Nova.
func within(key string, required []string, p validation.Properties) validation.Schema {
	inner := validation.Open(p)
	inner["required"] = required
	outer := validation.Open(validation.Properties{key: inner})
	outer["required"] = []string{key}
	return outer
}

// decodeWithin reads the object below a key. Its members that the schema knows count, as they are written. Among the others may be some in letters
// that encoding/json takes for those of a field, and no schema has looked at them (S1).
func decodeWithin(r *Request, key string, p validation.Properties, into any) error {
	if err := r.parse(); err != nil {
		return err
	}
	body, _ := r.document.(map[string]any)
	within, _ := body[key].(map[string]any)
	known := map[string]any{}
	for name := range p {
		if value, ok := within[name]; ok {
			known[name] = value
		}
	}
	return validation.Decode(known, into)
}

// oneSecurityGroup is the answer about a group.
func oneSecurityGroup(g compute.SecurityGroup, err error) (any, error) {
	return map[string]any{"security_group": viewGroups([]compute.SecurityGroup{g})[0]}, err
}

// groupID reads the id of a security group, or of a rule.
func groupID(text string) (compute.SecurityGroupID, error) {
	id, err := uuid.Parse(text)
	if err != nil {
		return compute.SecurityGroupID{}, fault.BadRequest("Security group id should be uuid")
	}
	return compute.SecurityGroupID{UUID: id}, nil
}

func listSecurityGroups(r *Request, groups OwnGroups) (any, error) {
	project := r.ProjectID()
	if r.Query.Has("all_tenants") && r.IsAdmin() {
		project = ""
	}
	found, err := groups.ListGroups(r.Context(), r.Credential(), project)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(found, compareGroups)
	found = found[min(r.Offset(), len(found)):]
	found = found[:min(cmp.Or(r.Limit(), MaxLimit), len(found))] // 0: as many as there may be
	return map[string]any{"security_groups": viewGroups(found)}, nil
}

func showSecurityGroup(r *Request, groups OwnGroups) (any, error) {
	id, err := groupID(r.Param("id"))
	if err != nil {
		return nil, err
	}
	return oneSecurityGroup(groups.GetGroup(r.Context(), r.Credential(), id))
}

// readSecurityGroup reads what a group is to be.
func readSecurityGroup(r *Request) (name, description string, err error) {
	var group struct{ Name, Description string }
	err = decodeWithin(r, "security_group", securityGroupProperties, &group)
	return group.Name, group.Description, err
}

func createSecurityGroup(r *Request, groups OwnGroups) (any, error) {
	name, description, err := readSecurityGroup(r)
	if err != nil {
		return nil, err
	}
	return oneSecurityGroup(groups.CreateGroup(r.Context(), r.Credential(), name, description))
}

func updateSecurityGroup(r *Request, groups OwnGroups) (any, error) {
	id, err := groupID(r.Param("id"))
	if err != nil {
		return nil, err
	}
	name, description, err := readSecurityGroup(r)
	if err != nil {
		return nil, err
	}
	return oneSecurityGroup(groups.UpdateGroup(r.Context(), r.Credential(), id, name, description))
}

func deleteSecurityGroup(r *Request, groups OwnGroups) (any, error) {
	id, err := groupID(r.Param("id"))
	if err != nil {
		return nil, err
	}
	return nil, groups.DeleteGroup(r.Context(), r.Credential(), id)
}
