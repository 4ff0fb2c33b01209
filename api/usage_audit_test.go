package api_test

import (
	"net/url"
	"testing"
	"time"

	"strongroom/api"
)

// Administrators are told that no host has audited the use of its servers, by the month that has ended.
func TestUsageAudit(t *testing.T) {
	t.Parallel()
	b := setup(t, func(config *api.Config) {
		config.Now = func() time.Time { return time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC) }
	})
	path := "/os-instance_usage_audit_log"
	b.do(t, admin, "GET", path, "").is(200, `{"instance_usage_audit_logs":{"hosts_not_run":[],"log":{},"num_hosts":0,"num_hosts_done":0,"num_hosts_not_run":0,"num_hosts_running":0,
		"overall_status":"ALL hosts done. 0 errors.","period_beginning":"2026-02-01 00:00:00","period_ending":"2026-03-01 00:00:00","total_errors":0,"total_instances":0}}`)
	newHost(t, b, "node-1", "nova")
	newHost(t, b, "node-2", "nova")
	for before, month := range map[string][2]string{
		"2026-01-01 00:00:00":        {"2025-12-01 00:00:00", "2026-01-01 00:00:00"},
		"2026-01-31 23:59:59.999999": {"2025-12-01 00:00:00", "2026-01-01 00:00:00"},
	} {
		b.do(t, admin, "GET", path+"/"+url.PathEscape(before), "").is(200, `{"instance_usage_audit_log":{"hosts_not_run":["node-1","node-2"],"log":{},"num_hosts":2,"num_hosts_done":0,"num_hosts_not_run":2,
			"num_hosts_running":0,"overall_status":"0 of 2 hosts done. 0 errors.","period_beginning":"`+month[0]+`","period_ending":"`+month[1]+`","total_errors":0,"total_instances":0}}`)
	}
	for _, before := range []string{"yesterday", "2026-01-01", "2026-01-01T00:00:00", "2026-13-01 00:00:00"} {
		b.do(t, admin, "GET", path+"/"+url.PathEscape(before), "").fails(400, "badRequest", "Invalid timestamp for date "+before)
	}
	b.do(t, reader, "GET", path, "").fails(403, "forbidden", "Policy doesn't allow os_compute_api:os-instance-usage-audit-log:list to be performed.")
}
