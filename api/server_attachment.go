package api

import (
	"net/http"

	"strongroom/api/fault"
	"strongroom/api/policy"
	"strongroom/api/validation"
	"strongroom/compute"
)

const (
	ruleAddressIndex = "os_compute_api:ips:index"
	ruleAddressShow  = "os_compute_api:ips:show"
	ruleInterfaces   = "os_compute_api:os-attach-interfaces:list"
	ruleInterface    = "os_compute_api:os-attach-interfaces:show"
	ruleVolumes      = "os_compute_api:os-volumes-attachments:index"
	ruleAttachVolume = "os_compute_api:os-volumes-attachments:create"
	ruleVolume       = "os_compute_api:os-volumes-attachments:show"
	ruleSwapVolume   = "os_compute_api:os-volumes-attachments:update"
	ruleDetachVolume = "os_compute_api:os-volumes-attachments:delete"
	ruleGroups       = "os_compute_api:os-security-groups:list"
)

var attachBody = validation.Always(validation.Object([]string{"volumeAttachment"}, validation.Properties{
	"volumeAttachment": {"type": "object", "required": []string{"volumeId"}},
}))

// serverAttachments is what clients ask for beside a server: its ports in the network service and
// their addresses; volumes, which there are none of; and its security groups.
func (a *API) serverAttachments() Resource {
	empty := func(path, key, rule string) Route {
		return Route{Method: http.MethodGet, Path: path, Handle: func(r *Request) (any, error) {
			_, err := a.findServer(r, rule)
			return map[string]any{key: []any{}}, err
		}}
	}
	none := func(rule string) func(*Request) (any, error) {
		return func(r *Request) (any, error) {
			row, err := a.findServer(r, rule)
			if err != nil {
				return nil, err
			}
			return nil, fault.NotFound("Instance %s is not attached to volume %s", row.Server.ID, r.Param("volume"))
		}
	}
	const volume = "/servers/:id/os-volume_attachments/:volume"
	return Resource{
		Rules: policy.Rules{
			ruleVolume: policy.ProjectReaderOrAdmin, ruleSwapVolume: policy.ProjectMemberOrAdmin, ruleDetachVolume: policy.ProjectMemberOrAdmin,
			ruleAddressIndex: policy.ProjectReaderOrAdmin, ruleAddressShow: policy.ProjectReaderOrAdmin,
			ruleInterfaces: policy.ProjectReaderOrAdmin, ruleInterface: policy.ProjectReaderOrAdmin, ruleVolumes: policy.ProjectReaderOrAdmin, ruleGroups: policy.ProjectReaderOrAdmin,
			ruleAttachVolume: policy.ProjectMemberOrAdmin, ruleAttachInterface: policy.ProjectMemberOrAdmin, ruleDetachInterface: policy.ProjectMemberOrAdmin,
		},
		Routes: []Route{
			{Method: http.MethodGet, Path: "/servers/:id/ips", Handle: a.listAddresses},
			{Method: http.MethodGet, Path: "/servers/:id/ips/:network", Handle: a.showAddresses},
			{Method: http.MethodGet, Path: "/servers/:id/os-security-groups", Handle: a.listServerGroups},
			{Method: http.MethodGet, Path: "/servers/:id/os-interface", Handle: a.listInterfaces},
			{Method: http.MethodGet, Path: "/servers/:id/os-interface/:port", Handle: a.showInterface},
			{Method: http.MethodPost, Path: "/servers/:id/os-interface", Body: attachInterfaceBody, Handle: a.attachInterface},
			{Method: http.MethodDelete, Path: "/servers/:id/os-interface/:port", Status: http.StatusAccepted, Handle: a.detachInterface},
			empty("/servers/:id/os-volume_attachments", "volumeAttachments", ruleVolumes),
			{Method: http.MethodPost, Path: "/servers/:id/os-volume_attachments", Body: attachBody, Refused: noneAttached, Handle: a.attachVolume},
			{Method: http.MethodGet, Path: volume, Refused: noneIsAttached, Handle: none(ruleVolume)},
			{Method: http.MethodPut, Path: volume, Body: attachBody, Status: http.StatusAccepted, Refused: noneIsAttached, Handle: none(ruleSwapVolume)},
			{Method: http.MethodDelete, Path: volume, Status: http.StatusAccepted, Refused: noneIsAttached, Handle: none(ruleDetachVolume)},
		},
	}
}

// attachVolume refuses, and says what of volumes might be believed otherwise (EE-47).
func (a *API) attachVolume(r *Request) (any, error) {
	if _, err := a.findServer(r, ruleAttachVolume); err != nil {
		return nil, err
	}
	return nil, fault.BadRequest(noneAttached+" %s", ofVolumesApart)
}

const (
	noneAttached   = "Volumes are not offered: none can be attached."
	noneIsAttached = "Volumes are not offered: none is attached."
)

func (a *API) listAddresses(r *Request) (any, error) {
	row, err := a.findServer(r, ruleAddressIndex)
	return map[string]any{"addresses": addresses(row.Server.Networks, false)}, err
}

func (a *API) showAddresses(r *Request) (any, error) {
	row, err := a.findServer(r, ruleAddressShow)
	if err != nil {
		return nil, err
	}
	if label := r.Param("network"); len(addresses(row.Server.Networks, false)[label]) > 0 {
		return map[string]any{label: addresses(row.Server.Networks, false)[label]}, nil
	}
	return nil, fault.NotFound("Instance is not a member of specified network")
}

func (a *API) listServerGroups(r *Request) (any, error) {
	row, err := a.findServer(r, ruleGroups)
	if err != nil {
		return nil, err
	}
	if a.config.Networks != nil {
		groups, err := a.config.Networks.ServerGroups(r.Context(), r.Credential(), row.Server.ProjectID, row.Server.ID)
		return map[string]any{"security_groups": viewGroups(groups)}, err
	}
	groups := []map[string]any{}
	for _, g := range securityGroups(row.Server.Networks, nil) {
		description := ""
		if g["name"] == compute.DefaultGroup {
			description = "Default security group"
		}
		groups = append(groups, map[string]any{
			"id": g["name"], "name": g["name"], "description": description, "tenant_id": row.Server.ProjectID, "rules": []any{},
		})
	}
	return map[string]any{"security_groups": groups}, nil
}
