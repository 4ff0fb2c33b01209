package api_test

import (
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/api"
)

// Usage counts the hours that servers ran within the period, deleted ones too, by pages from 2.40 on.
func TestTenantUsage(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	c := setupCloud(t, func(config *api.Config) { config.Now = func() time.Time { return now } })
	var ids []string
	for _, ran := range []struct{ from, to any }{
		{"2026-03-01 08:00:00Z", nil},                    // for two hours of the period, and still
		{"2026-02-01 00:00:00Z", "2026-03-01 10:30:00Z"}, // for half an hour
		{"2026-03-01 10:15:00Z", "2026-03-01 10:30:00Z"}, // for a quarter
		{"2026-02-01 00:00:00Z", "2026-03-01 10:00:00Z"}, // before
		{"2026-03-01 12:30:00Z", nil},                    // after
		{nil, nil},                                       // never
	} {
		id := c.create(nil)
		c.exec(`UPDATE servers SET launched_at = $2::timestamptz, terminated_at = $3::timestamptz, deleted_at = $3::timestamptz, vm_state = 'active' WHERE id = $1`, id, ran.from, ran.to)
		ids = append(ids, id)
	}
	other := c.createAs(stranger, nil)
	c.exec(`UPDATE servers SET launched_at = '2026-03-01 11:00:00Z', vm_state = 'stopped' WHERE id = $1`, other)
	when := "start=2026-03-01T10:00:00&end=2026-03-01T13:00:00.5"
	path := "/os-simple-tenant-usage"

	got := c.do(t, reader, "GET", path+"/"+project+"?"+when, "").ok(200)
	require.InDelta(t, 2.75, got.get("tenant_usage", "total_hours"), 0)
	require.InDelta(t, 2.75*512, got.get("tenant_usage", "total_memory_mb_usage"), 0)
	require.InDelta(t, 2.75, got.get("tenant_usage", "total_vcpus_usage"), 0)
	require.InDelta(t, 2.75*3, got.get("tenant_usage", "total_local_gb_usage"), 0)
	require.Equal(t, "2026-03-01T10:00:00.000000", got.get("tenant_usage", "start"))
	require.Equal(t, "2026-03-01T12:00:00.000000", got.get("tenant_usage", "stop"), "now")
	require.Len(t, got.get("tenant_usage", "server_usages"), 3)
	require.Equal(t, map[string]any{
		"instance_id": ids[0], "name": "one", "tenant_id": project, "flavor": "flavor-42", "vcpus": 1.0, "memory_mb": 512.0, "local_gb": 3.0,
		"hours": 2.0, "uptime": 4 * 3600.0, "started_at": "2026-03-01T08:00:00.000000", "ended_at": nil, "state": "active",
	}, got.get("tenant_usage", "server_usages", 0))
	require.Equal(t, "terminated", got.get("tenant_usage", "server_usages", 1, "state"))
	require.Equal(t, "2026-03-01T10:30:00.000000", got.get("tenant_usage", "server_usages", 1, "ended_at"))
	require.Empty(t, c.do(t, reader, "GET", path+"/"+project+"?start=2020-01-01T00:00:00&end=2020-01-02T00:00:00", "").ok(200).get("tenant_usage"))
	c.do(t, reader, "GET", path+"/"+project, "").ok(200)

	all := c.do(t, admin, "GET", path+"?"+when, "").ok(200)
	require.Len(t, all.get("tenant_usages"), 2)
	require.NotContains(t, all.keys("tenant_usages", 0), "server_usages")
	require.InDelta(t, 1.0, all.get("tenant_usages", 1, "total_hours"), 0)
	all = c.do(t, admin, "GET", path+"?detailed=1&"+when, "", at("2.40")).ok(200)
	require.Len(t, all.get("tenant_usages", 1, "server_usages"), 1)
	require.NotContains(t, all.keys(), "tenant_usages_links")

	// Two pages of one project: the second has the rest.
	page := c.do(t, reader, "GET", path+"/"+project+"?limit=2&"+when, "", at("2.40")).ok(200)
	require.InDelta(t, 2.5, page.get("tenant_usage", "total_hours"), 0)
	next, err := url.Parse(page.get("tenant_usage_links", 0, "href").(string))
	require.NoError(t, err)
	require.Equal(t, ids[1], next.Query().Get("marker"))
	rest := c.do(t, reader, "GET", path+"/"+project+"?"+next.RawQuery, "", at("2.40")).ok(200)
	require.InDelta(t, 0.25, rest.get("tenant_usage", "total_hours"), 0)
	require.NotContains(t, rest.keys(), "tenant_usage_links")

	for query, want := range map[string]string{
		"start=yesterday":           "Invalid datetime string: Datetime is in invalid format",
		"end=2026-03-01T13:00:00Z":  "Invalid datetime string: Datetime is in invalid format",
		"start=2026-03-01T13:00:00": "Invalid start time. The start time cannot occur after the end time.",
		"marker=" + other:           "Marker " + other + " could not be found.",
		"marker=none":               "Marker none could not be found.",
	} {
		c.do(t, reader, "GET", path+"/"+project+"?"+query, "", at("2.40")).fails(400, "badRequest", want)
	}
	c.do(t, reader, "GET", path+"/"+project+"?more=1", "", at("2.75")).ok(400)
	c.do(t, stranger, "GET", path+"/"+project, "").fails(403, "forbidden", "Policy doesn't allow os_compute_api:os-simple-tenant-usage:show to be performed.")
	c.do(t, member, "GET", path, "").fails(403, "forbidden", "Policy doesn't allow os_compute_api:os-simple-tenant-usage:list to be performed.")
}
