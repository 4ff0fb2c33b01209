package api

import (
	"net/http"

	"strongroom/api/microversion"
	"strongroom/api/policy"
	"strongroom/api/validation"
	"strongroom/compute"
)

const ruleOtherLimits = "os_compute_api:limits:other_project"

// limits shows a project what it uses and what it may use.
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
	use, err := a.shownUse(r.Context(), project)
	if err != nil {
		return nil, err
	}
	return map[string]any{"limits": map[string]any{"rate": []any{}, "absolute": viewLimits(r.Version, a.config.Quotas.Of(r.Context(), project), use)}}, nil
}

// viewLimits shows limits and use. The limits of networks went in 2.36, those
// of image metadata in 2.39, those of injected files in 2.57.
func viewLimits(v microversion.Version, quota compute.Quota, use compute.Use) map[string]any {
	view := map[string]any{
		"maxTotalInstances": limitOf("instances", quota), "maxTotalCores": limitOf("cores", quota), "maxTotalRAMSize": limitOf("ram", quota),
		"maxTotalKeypairs": limitOf("key_pairs", quota), "maxServerMeta": limitOf("metadata_items", quota),
		"maxServerGroups": limitOf("server_groups", quota), "maxServerGroupMembers": limitOf("server_group_members", quota),
		"totalInstancesUsed": use.Instances, "totalCoresUsed": use.Cores, "totalRAMUsed": use.MemoryMB, "totalServerGroupsUsed": use.Groups,
	}
	if v < 36 {
		view["maxSecurityGroups"], view["maxSecurityGroupRules"] = limitOf("security_groups", quota), limitOf("security_group_rules", quota)
		view["maxTotalFloatingIps"] = limitOf("floating_ips", quota)
		view["totalSecurityGroupsUsed"], view["totalFloatingIpsUsed"] = 0, 0
	}
	if v < 39 {
		view["maxImageMeta"] = limitOf("metadata_items", quota)
	}
	if v < 57 {
		view["maxPersonality"], view["maxPersonalitySize"] = limitOf("injected_files", quota), limitOf("injected_file_content_bytes", quota)
	}
	return view
}
