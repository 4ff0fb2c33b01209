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
	quota, err := a.quotaOf(r.Context(), project)
	if err != nil {
		return nil, err
	}
	return map[string]any{"limits": map[string]any{"rate": []any{}, "absolute": viewLimits(r.Version, quota, use)}}, nil
}

// viewLimits shows limits and use. The limits of networks went in 2.36, those
// of image metadata in 2.39, those of injected files in 2.57.
func viewLimits(v microversion.Version, quota projectQuota, use compute.Use) map[string]any {
	view := map[string]any{
		"maxTotalInstances": quota.limit("instances"), "maxTotalCores": quota.limit("cores"), "maxTotalRAMSize": quota.limit("ram"),
		"maxTotalKeypairs": quota.limit("key_pairs"), "maxServerMeta": quota.limit("metadata_items"),
		"maxServerGroups": quota.limit("server_groups"), "maxServerGroupMembers": quota.limit("server_group_members"),
		"totalInstancesUsed": use.Instances, "totalCoresUsed": use.Cores, "totalRAMUsed": use.MemoryMB, "totalServerGroupsUsed": use.Groups,
	}
	if v < 36 {
		view["maxSecurityGroups"], view["maxSecurityGroupRules"] = quota.limit("security_groups"), quota.limit("security_group_rules")
		view["maxTotalFloatingIps"] = quota.limit("floating_ips")
		view["totalSecurityGroupsUsed"], view["totalFloatingIpsUsed"] = 0, 0
	}
	if v < 39 {
		view["maxImageMeta"] = quota.limit("metadata_items")
	}
	if v < 57 {
		view["maxPersonality"], view["maxPersonalitySize"] = quota.limit("injected_files"), quota.limit("injected_file_content_bytes")
	}
	return view
}
