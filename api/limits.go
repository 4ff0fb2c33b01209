package api

import (
	"net/http"

	"strongroom/api/microversion"
	"strongroom/api/policy"
	"strongroom/api/validation"
	"strongroom/schema"
)

// unlimited is a limit that is not there.
const unlimited = -1

const (
	ruleOtherLimits = "os_compute_api:limits:other_project"
	ruleShowQuotas  = "os_compute_api:os-quota-sets:show"
)

// limits shows a project what it uses and what it may use: there are no quotas,
// so each limit is -1.
func (a *API) limits() Resource {
	const limits = "os_compute_api:limits"
	return Resource{
		Rules: policy.Rules{limits: policy.Anyone, ruleOtherLimits: policy.Admin},
		Routes: []Route{
			{Method: http.MethodGet, Path: "/limits", Rule: limits, Query: limitQuery, Handle: a.showLimits},
		},
	}
}

var limitQuery = validation.Since(func(v microversion.Version) validation.Schema {
	p := validation.Properties{"tenant_id": validation.Repeated(validation.Text)}
	if v >= 57 {
		p["tenant_id"] = validation.Single(validation.Text)
	}
	if v >= 75 {
		return validation.Object(nil, p)
	}
	return validation.Open(p)
}, 1, 57, 75)

func (a *API) showLimits(r *Request) (any, error) {
	project := r.ProjectID()
	if other := r.Query.Get("tenant_id"); other != "" && other != project {
		if err := r.Enforce(ruleOtherLimits); err != nil {
			return nil, err
		}
		project = other
	}
	use, err := a.db.ProjectUse(r.Context(), project)
	if err != nil {
		return nil, err
	}
	return map[string]any{"limits": map[string]any{"rate": []any{}, "absolute": viewLimits(r.Version, use)}}, nil
}

// viewLimits shows limits and use. The limits of networks went in 2.36, those
// of image metadata in 2.39, those of injected files in 2.57.
func viewLimits(v microversion.Version, use schema.ProjectUseRow) map[string]any {
	view := map[string]any{
		"maxTotalInstances": unlimited, "maxTotalCores": unlimited, "maxTotalRAMSize": unlimited, "maxTotalKeypairs": unlimited,
		"maxServerMeta": unlimited, "maxServerGroups": unlimited, "maxServerGroupMembers": unlimited,
		"totalInstancesUsed": use.Servers, "totalCoresUsed": use.VCPUs, "totalRAMUsed": use.MemoryMB, "totalServerGroupsUsed": 0,
	}
	if v < 36 {
		view["maxSecurityGroups"], view["maxSecurityGroupRules"], view["maxTotalFloatingIps"] = unlimited, unlimited, unlimited
		view["totalSecurityGroupsUsed"], view["totalFloatingIpsUsed"] = 0, 0
	}
	if v < 39 {
		view["maxImageMeta"] = unlimited
	}
	if v < 57 {
		view["maxPersonality"], view["maxPersonalitySize"] = unlimited, unlimited
	}
	return view
}
