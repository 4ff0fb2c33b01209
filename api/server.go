package api

import (
	"net/http"

	"strongroom/api/policy"
)

// The policy rules of servers.
const (
	ruleIndex         = "os_compute_api:servers:index"
	ruleIndexAll      = "os_compute_api:servers:index:get_all_tenants"
	ruleDetail        = "os_compute_api:servers:detail"
	ruleDetailAll     = "os_compute_api:servers:detail:get_all_tenants"
	ruleAllFilters    = "os_compute_api:servers:allow_all_filters"
	ruleShow          = "os_compute_api:servers:show"
	ruleHostStatus    = "os_compute_api:servers:show:host_status"
	ruleAttributes    = "os_compute_api:os-extended-server-attributes"
	ruleCreate        = "os_compute_api:servers:create"
	ruleAttachNetwork = "os_compute_api:servers:create:attach_network"
	ruleExternal      = "network:attach_external_network"
	ruleUpdate        = "os_compute_api:servers:update"
	ruleDelete        = "os_compute_api:servers:delete"
)

// servers are the servers themselves. Their actions, metadata and tags, and
// their trail, are resources of their own.
func (a *API) servers() Resource {
	return Resource{
		Rules: policy.Rules{
			ruleIndex: policy.ProjectReaderOrAdmin, ruleIndexAll: policy.Admin,
			ruleDetail: policy.ProjectReaderOrAdmin, ruleDetailAll: policy.Admin, ruleAllFilters: policy.Admin,
			ruleShow: policy.ProjectReaderOrAdmin, ruleHostStatus: policy.Admin, ruleAttributes: policy.Admin,
			ruleCreate: policy.ProjectMemberOrAdmin, ruleAttachNetwork: policy.ProjectMemberOrAdmin, ruleExternal: policy.Admin,
			ruleForcedHost: policy.Admin, ruleRequestedHost: policy.Admin,
			ruleUpdate: policy.ProjectMemberOrAdmin, ruleDelete: policy.ProjectMemberOrAdmin,
		},
		Routes: []Route{
			{Method: http.MethodGet, Path: "/servers", Rule: ruleIndex, Query: listQuery, Handle: a.indexServers},
			{Method: http.MethodGet, Path: "/servers/detail", Rule: ruleDetail, Query: listQuery, Handle: a.detailServers},
			{
				Method: http.MethodPost, Path: "/servers", Rule: ruleCreate, Body: createBody,
				Status: http.StatusAccepted, Handle: a.createServers,
			},
			{Method: http.MethodGet, Path: "/servers/:id", Handle: a.showServer},
			{Method: http.MethodPut, Path: "/servers/:id", Body: updateBody, Handle: a.updateServer},
			{Method: http.MethodDelete, Path: "/servers/:id", Status: http.StatusNoContent, Handle: a.deleteServer},
		},
	}
}
