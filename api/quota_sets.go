package api

import (
	"net/http"
	"regexp"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/projects"

	"strongroom/api/fault"
	"strongroom/api/microversion"
	"strongroom/api/policy"
	"strongroom/compute"
)

const quotaRule = "os_compute_api:os-quota-sets:"

// quotaSets show the quotas of a project, and change them where they are not Keystone's.
func (a *API) quotaSets() Resource {
	const (
		defaults = quotaRule + "defaults"
		path     = "/os-quota-sets/:id"
	)
	return Resource{
		Rules: policy.Rules{
			ruleShowQuotas: policy.ProjectReaderOrAdmin, defaults: policy.Anyone, ruleDetailQuotas: policy.ProjectReaderOrAdmin,
			ruleUpdateQuotas: policy.Admin, ruleDeleteQuotas: policy.Admin,
		},
		Routes: []Route{
			{Method: http.MethodGet, Path: path, Query: quotaQuery, Handle: a.showQuotas},
			{Method: http.MethodGet, Path: path + "/defaults", Rule: defaults, Handle: a.defaultQuotas},
			{Method: http.MethodGet, Path: path + "/detail", Query: quotaQuery, Handle: a.detailQuotas},
			{Method: http.MethodPut, Path: path, Query: quotaQuery, Body: quotaBody, Handle: a.updateQuotas},
			{Method: http.MethodDelete, Path: path, Query: quotaQuery, Status: http.StatusAccepted, Handle: a.deleteQuotas},
		},
	}
}

const (
	ruleShowQuotas   = quotaRule + "show"
	ruleDetailQuotas = quotaRule + "detail"
	ruleUpdateQuotas = quotaRule + "update"
	ruleDeleteQuotas = quotaRule + "delete"
)

// quotaClassSets show the default quota, whatever class is named: there is none else.
func (a *API) quotaClassSets() Resource {
	const (
		show   = "os_compute_api:os-quota-class-sets:show"
		update = "os_compute_api:os-quota-class-sets:update"
		path   = "/os-quota-class-sets/:id"
	)
	return Resource{
		Rules: policy.Rules{show: policy.Admin, update: policy.Admin},
		Routes: []Route{
			{Method: http.MethodGet, Path: path, Rule: show, Handle: func(r *Request) (any, error) {
				set := quotaSet(classQuotaNames(r.Version), a.defaultQuota(r.Context()))
				set["id"] = r.Param("id")
				return map[string]any{"quota_class_set": set}, nil
			}},
			{Method: http.MethodPut, Path: path, Rule: update, Refused: quotasElsewhere, Handle: quotasAreElsewhere},
		},
	}
}

// quotasAreElsewhere refuses to change the quota of all projects.
func quotasAreElsewhere(*Request) (any, error) { return nil, fault.Forbidden(quotasElsewhere) }

const quotasElsewhere = "Quotas cannot be changed here. They are Keystone's limits of this service " +
	"(openstack limit create, openstack registered limit create), or strongroom's configuration (quota)."

// quotaNames are the resources that have quotas. Those of networks went in
// 2.36, those of injected files in 2.57.
func quotaNames(v microversion.Version) []string {
	names := []string{"instances", "cores", "ram", "key_pairs", "metadata_items", "server_groups", "server_group_members"}
	if v < 36 {
		names = append(names, networkQuotas...)
	}
	if v < 57 {
		names = append(names, fileQuotas...)
	}
	return names
}

// classQuotaNames are those of a quota class. Server groups came in 2.50, when those of
// networks went.
func classQuotaNames(v microversion.Version) []string {
	names := []string{"instances", "cores", "ram", "key_pairs", "metadata_items"}
	if v < 50 {
		names = append(names, networkQuotas...)
	} else {
		names = append(names, "server_groups", "server_group_members")
	}
	if v < 57 {
		names = append(names, fileQuotas...)
	}
	return names
}

var (
	networkQuotas = []string{"fixed_ips", "floating_ips", "security_groups", "security_group_rules"}
	fileQuotas    = []string{"injected_files", "injected_file_content_bytes", "injected_file_path_bytes"}
)

func usedOf(name string, use compute.Use) int64 {
	switch name {
	case "instances":
		return use.Instances
	case "cores":
		return use.Cores
	case "ram":
		return use.MemoryMB
	case "server_groups":
		return use.Groups
	default:
		return 0
	}
}

func quotaSet(names []string, quota projectQuota) map[string]any {
	set := map[string]any{}
	for _, name := range names {
		set[name] = quota.limit(name)
	}
	return set
}

var projectID = regexp.MustCompile(`^[0-9A-Za-z_-]{1,64}$`) // it becomes a part of Keystone's path

// knownProject refuses a project that Keystone does not know (P20). Only administrators may
// learn of projects that are not theirs, and what Keystone cannot answer counts as known, as
// in Nova.
func (a *API) knownProject(r *Request, id string) error {
	if id == r.ProjectID() || !r.IsAdmin() {
		return nil
	}
	if projectID.MatchString(id) {
		err := projects.Get(r.Context(), a.config.Identity, id).Err
		if !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
			return r.Context().Err()
		}
	}
	return fault.BadRequest("Project ID %s is not a valid project.", id)
}

func (a *API) showQuotas(r *Request) (any, error) {
	project := r.Param("id")
	if err := r.EnforceOn(ruleShowQuotas, project, r.UserID()); err != nil {
		return nil, err
	}
	if err := a.knownProject(r, project); err != nil {
		return nil, err
	}
	quota, err := a.quotaOf(r.Context(), project)
	return viewQuotas(r, quota), err
}

func (a *API) defaultQuotas(r *Request) (any, error) {
	if err := a.knownProject(r, r.Param("id")); err != nil {
		return nil, err
	}
	return viewQuotas(r, a.defaultQuota(r.Context())), nil
}

func viewQuotas(r *Request, quota projectQuota) map[string]any {
	set := quotaSet(quotaNames(r.Version), quota)
	set["id"] = r.Param("id")
	return map[string]any{"quota_set": set}
}

// detailQuotas shows limits with what is used. Nothing is ever reserved: a server counts
// from the moment that its create is on record.
func (a *API) detailQuotas(r *Request) (any, error) {
	project := r.Param("id")
	if err := r.EnforceOn(ruleDetailQuotas, project, r.UserID()); err != nil {
		return nil, err
	}
	if err := a.knownProject(r, project); err != nil {
		return nil, err
	}
	use, err := a.shownUse(r.Context(), project)
	if err != nil {
		return nil, err
	}
	quota, err := a.quotaOf(r.Context(), project)
	if err != nil {
		return nil, err
	}
	set := map[string]any{"id": project}
	for _, name := range quotaNames(r.Version) {
		set[name] = map[string]any{"limit": quota.limit(name), "in_use": usedOf(name, use), "reserved": 0}
	}
	return map[string]any{"quota_set": set}, nil
}
