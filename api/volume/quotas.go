package volume

import (
	"net/http"

	"strongroom/api/fault"
	"strongroom/compute"
)

// quotas say what a project may have of volumes, snapshots and backups: none, since
// there are none here. Clients ask for limits and quotas of both APIs at once (P17).
func (a *API) quotas() []route {
	const path = "/os-quota-sets/:id"
	class := func(r *request) (any, error) { return map[string]any{"quota_class_set": quotaSet(r)}, nil }
	return []route{
		{method: http.MethodGet, path: "/limits", rule: ruleLimits, handle: showLimits},
		{method: http.MethodGet, path: "/qos-specs", rule: ruleListQoS, handle: listQoS},
		{method: http.MethodGet, path: path, also: []string{ruleShowQuotas}, query: []string{"usage"}, handle: showQuotas},
		{method: http.MethodGet, path: path + "/defaults", also: []string{ruleShowQuotas}, query: []string{"usage"}, handle: showQuotas},
		{method: http.MethodPut, path: path, rule: ruleUpdateQuotas, handle: nothingToLimit},
		{method: http.MethodDelete, path: path, rule: ruleDeleteQuotas, handle: nothingToLimit},
		{method: http.MethodGet, path: "/os-quota-class-sets/:id", rule: ruleQuotaClasses, handle: class},
		{method: http.MethodPut, path: "/os-quota-class-sets/:id", rule: ruleQuotaClasses, handle: nothingToLimit},
	}
}

// listQoS: there are no QoS specs. Horizon shows no volume types where it cannot ask (VT-12).
func listQoS(*request) (any, error) { return map[string]any{"qos_specs": []any{}}, nil }

func showLimits(*request) (any, error) {
	absolute := map[string]int{}
	for _, name := range []string{
		"maxTotalVolumes", "maxTotalVolumeGigabytes", "maxTotalSnapshots", "maxTotalBackups", "maxTotalBackupGigabytes",
		"totalVolumesUsed", "totalGigabytesUsed", "totalSnapshotsUsed", "totalBackupsUsed", "totalBackupGigabytesUsed",
	} {
		absolute[name] = 0
	}
	return map[string]any{"limits": map[string]any{"rate": []any{}, "absolute": absolute}}, nil
}

var quotaNames = []string{"volumes", "snapshots", "gigabytes", "per_volume_gigabytes", "backups", "backup_gigabytes", "groups"}

// quotaSet has no quotas by type, as Cinder has: they would tell the names of private ones.
func quotaSet(r *request) map[string]any {
	set := map[string]any{"id": r.param("id")}
	for _, name := range quotaNames {
		set[name] = 0
	}
	return set
}

func showQuotas(r *request) (any, error) {
	if err := r.enforceOn(ruleShowQuotas, r.param("id")); err != nil {
		return nil, err
	}
	set := quotaSet(r)
	if usage, _ := compute.ParseBool(r.query.Get("usage")); usage { // any other text says no
		for _, name := range quotaNames {
			set[name] = map[string]int{"limit": 0, "in_use": 0, "reserved": 0}
		}
	}
	return map[string]any{"quota_set": set}, nil
}

func nothingToLimit(*request) (any, error) {
	return nil, fault.Forbidden("There are no volumes, snapshots or backups here: their quotas are 0 and cannot be changed.")
}
