package api

import (
	"net/http"

	"strongroom/api/fault"
	"strongroom/api/policy"
	"strongroom/api/validation"
)

const (
	ruleAddressIndex = "os_compute_api:ips:index"
	ruleAddressShow  = "os_compute_api:ips:show"
	ruleInterfaces   = "os_compute_api:os-attach-interfaces:list"
	ruleVolumes      = "os_compute_api:os-volumes-attachments:index"
	ruleAttachVolume = "os_compute_api:os-volumes-attachments:create"
	ruleGroups       = "os_compute_api:os-security-groups:list"
)

var attachBody = validation.Always(validation.Object([]string{"volumeAttachment"}, validation.Properties{
	"volumeAttachment": {"type": "object", "required": []string{"volumeId"}},
}))

// serverAttachments is what clients ask for beside a server: its addresses,
// which no service gives out here; ports and volumes, which there are none of;
// and the one security group.
func (a *API) serverAttachments() Resource {
	empty := func(path, key, rule string) Route {
		return Route{Method: http.MethodGet, Path: path, Handle: func(r *Request) (any, error) {
			_, err := a.findServer(r, rule)
			return map[string]any{key: []any{}}, err
		}}
	}
	return Resource{
		Rules: policy.Rules{
			ruleAddressIndex: policy.ProjectReaderOrAdmin, ruleAddressShow: policy.ProjectReaderOrAdmin,
			ruleInterfaces: policy.ProjectReaderOrAdmin, ruleVolumes: policy.ProjectReaderOrAdmin, ruleGroups: policy.ProjectReaderOrAdmin,
			ruleAttachVolume: policy.ProjectMemberOrAdmin,
		},
		Routes: []Route{
			{Method: http.MethodGet, Path: "/servers/:id/ips", Handle: a.listAddresses},
			{Method: http.MethodGet, Path: "/servers/:id/ips/:network", Handle: a.showAddresses},
			{Method: http.MethodGet, Path: "/servers/:id/os-security-groups", Handle: a.listServerGroups},
			empty("/servers/:id/os-interface", "interfaceAttachments", ruleInterfaces),
			empty("/servers/:id/os-volume_attachments", "volumeAttachments", ruleVolumes),
			{Method: http.MethodPost, Path: "/servers/:id/os-volume_attachments", Body: attachBody, Handle: a.attachVolume},
		},
	}
}

// attachVolume refuses, and says what of volumes might be believed otherwise (EE-47).
func (a *API) attachVolume(r *Request) (any, error) {
	if _, err := a.findServer(r, ruleAttachVolume); err != nil {
		return nil, err
	}
	return nil, fault.BadRequest("Volumes are not offered: none can be attached. %s", ofVolumesApart)
}

func (a *API) listAddresses(r *Request) (any, error) {
	_, err := a.findServer(r, ruleAddressIndex)
	return map[string]any{"addresses": map[string]any{}}, err
}

func (a *API) showAddresses(r *Request) (any, error) {
	if _, err := a.findServer(r, ruleAddressShow); err != nil {
		return nil, err
	}
	return nil, fault.NotFound("Instance is not a member of specified network")
}

func (a *API) listServerGroups(r *Request) (any, error) {
	row, err := a.findServer(r, ruleGroups)
	if err != nil {
		return nil, err
	}
	return map[string]any{"security_groups": []map[string]any{{
		"id": defaultGroup, "name": defaultGroup, "description": "Default security group", "tenant_id": row.Server.ProjectID, "rules": []any{},
	}}}, nil
}
