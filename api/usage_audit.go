package api

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"strongroom/api/fault"
	"strongroom/api/policy"
)

// usageAudit tells which hosts have audited the use of their servers in a period, as Nova does where no host does: none. What servers used is told by
// tenantUsage, which the database counts.
func (a *API) usageAudit() Resource {
	const (
		root = "os_compute_api:os-instance-usage-audit-log:"
		path = "/os-instance_usage_audit_log"
	)
	return Resource{
		Rules: policy.Rules{root + "list": policy.Admin, root + "show": policy.Admin},
		Routes: []Route{
			{Method: http.MethodGet, Path: path, Rule: root + "list", Handle: func(r *Request) (any, error) {
				return a.auditedUse(r, "instance_usage_audit_logs", a.config.Now())
			}},
			{Method: http.MethodGet, Path: path + "/:before", Rule: root + "show", Handle: func(r *Request) (any, error) {
				before, ok := auditTime(r.Param("before"))
				if !ok {
					return nil, fault.BadRequest("Invalid timestamp for date %s", r.Param("before"))
				}
				return a.auditedUse(r, "instance_usage_audit_log", before)
			}},
		},
	}
}

// auditTime reads a time as Nova has it here.
func auditTime(text string) (time.Time, bool) {
	layout := time.DateTime
	if strings.Contains(text, ".") {
		layout += ".000000"
	}
	at, err := time.Parse(layout, text)
	return at, err == nil
}

// auditedUse is the answer under a key for the last month that had ended at a time.
func (a *API) auditedUse(r *Request, key string, at time.Time) (any, error) {
	rows, err := a.db.HostsWithUse(r.Context(), nil)
	if err != nil {
		return nil, err
	}
	hosts := make([]string, len(rows))
	for i, h := range rows {
		hosts[i] = h.Name
	}
	status := "ALL hosts done. 0 errors."
	if len(hosts) > 0 {
		status = fmt.Sprintf("0 of %d hosts done. 0 errors.", len(hosts))
	}
	at = at.UTC()
	ends := time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC)
	return map[string]any{key: map[string]any{
		"period_beginning": ends.AddDate(0, -1, 0).Format(time.DateTime), "period_ending": ends.Format(time.DateTime),
		"num_hosts": len(hosts), "num_hosts_done": 0, "num_hosts_running": 0, "num_hosts_not_run": len(hosts), "hosts_not_run": hosts,
		"total_instances": 0, "total_errors": 0, "overall_status": status, "log": map[string]any{},
	}}, nil
}
