package api

import (
	"net/http"

	"strongroom/api/microversion"
	"strongroom/api/policy"
	"strongroom/schema"
)

// quotaSets show the quotas of a project. There are none: each is -1.
func (a *API) quotaSets() Resource {
	const (
		defaults = "os_compute_api:os-quota-sets:defaults"
		detail   = "os_compute_api:os-quota-sets:detail"
		path     = "/os-quota-sets/:id"
	)
	return Resource{
		Rules: policy.Rules{ruleShowQuotas: policy.ProjectReaderOrAdmin, defaults: policy.Anyone, detail: policy.ProjectReaderOrAdmin},
		Routes: []Route{
			{Method: http.MethodGet, Path: path, Handle: func(r *Request) (any, error) {
				if err := r.EnforceOn(ruleShowQuotas, r.Param("id"), r.UserID()); err != nil {
					return nil, err
				}
				return showQuotas(r)
			}},
			{Method: http.MethodGet, Path: path + "/defaults", Rule: defaults, Handle: showQuotas},
			{Method: http.MethodGet, Path: path + "/detail", Handle: func(r *Request) (any, error) {
				if err := r.EnforceOn(detail, r.Param("id"), r.UserID()); err != nil {
					return nil, err
				}
				return a.detailQuotas(r)
			}},
		},
	}
}

// quotaNames are the resources that have quotas. Those of networks went in
// 2.36, those of injected files in 2.57.
func quotaNames(v microversion.Version) []string {
	names := []string{"instances", "cores", "ram", "key_pairs", "metadata_items", "server_groups", "server_group_members"}
	if v < 36 {
		names = append(names, "fixed_ips", "floating_ips", "security_groups", "security_group_rules")
	}
	if v < 57 {
		names = append(names, "injected_files", "injected_file_content_bytes", "injected_file_path_bytes")
	}
	return names
}

func showQuotas(r *Request) (any, error) {
	set := map[string]any{"id": r.Param("id")}
	for _, name := range quotaNames(r.Version) {
		set[name] = unlimited
	}
	return map[string]any{"quota_set": set}, nil
}

func (a *API) detailQuotas(r *Request) (any, error) {
	use, err := a.db.ProjectUse(r.Context(), r.Param("id"))
	if err != nil {
		return nil, err
	}
	set := map[string]any{"id": r.Param("id")}
	for _, name := range quotaNames(r.Version) {
		set[name] = map[string]any{"limit": unlimited, "in_use": inUse(use, name), "reserved": 0}
	}
	return map[string]any{"quota_set": set}, nil
}

func inUse(use schema.ProjectUseRow, name string) int64 {
	switch name {
	case "instances":
		return use.Servers
	case "cores":
		return use.VCPUs
	case "ram":
		return use.MemoryMB
	default:
		return 0
	}
}
