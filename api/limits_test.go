package api_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLimits(t *testing.T) {
	t.Parallel()
	b := setup(t)
	newServer(t, b, newHost(t, b, "host-a", "nova"), "one")
	newest := `{"limits":{"rate":[],"absolute":{"maxServerMeta":-1,"maxTotalCores":-1,"maxTotalInstances":-1,"maxTotalKeypairs":-1,"maxTotalRAMSize":-1,
		"maxServerGroups":-1,"maxServerGroupMembers":-1,"totalCoresUsed":2,"totalInstancesUsed":1,"totalRAMUsed":1024,"totalServerGroupsUsed":0}}}`
	b.do(t, reader, "GET", "/limits", "", at("2.57")).is(200, newest)
	b.do(t, admin, "GET", "/limits?tenant_id="+project, "", at("2.97")).is(200, newest)
	for version, more := range map[string][]string{
		"2.1":  {"maxImageMeta", "maxPersonality", "maxPersonalitySize", "maxSecurityGroups", "maxSecurityGroupRules", "maxTotalFloatingIps", "totalSecurityGroupsUsed", "totalFloatingIpsUsed"},
		"2.36": {"maxImageMeta", "maxPersonality", "maxPersonalitySize"},
		"2.39": {"maxPersonality", "maxPersonalitySize"},
	} {
		require.Subset(t, b.do(t, reader, "GET", "/limits", "", at(version)).keys("limits", "absolute"), more)
		require.Len(t, b.do(t, reader, "GET", "/limits", "", at(version)).keys("limits", "absolute"), 11+len(more))
	}
	require.Contains(t, b.do(t, stranger, "GET", "/limits", "").body, `"totalInstancesUsed":0`)
	b.do(t, stranger, "GET", "/limits?tenant_id="+project, "").
		fails(403, "forbidden", "Policy doesn't allow os_compute_api:limits:other_project to be performed.")
	b.do(t, reader, "GET", "/limits?x=1", "", at("2.75")).fails(400, "badRequest", "Additional properties are not allowed ('x' was unexpected)")
}

func TestQuotaSets(t *testing.T) {
	t.Parallel()
	b := setup(t)
	newServer(t, b, newHost(t, b, "host-a", "nova"), "one")
	newest := `{"quota_set":{"id":"` + project + `","instances":-1,"cores":-1,"ram":-1,"key_pairs":-1,"metadata_items":-1,"server_groups":-1,"server_group_members":-1}}`
	b.do(t, reader, "GET", "/os-quota-sets/"+project, "", at("2.57")).is(200, newest)
	b.do(t, reader, "GET", "/os-quota-sets/"+project+"/defaults", "", at("2.97")).is(200, newest)
	require.Len(t, b.do(t, reader, "GET", "/os-quota-sets/"+project, "").keys("quota_set"), 15)
	require.Len(t, b.do(t, reader, "GET", "/os-quota-sets/"+project, "", at("2.36")).keys("quota_set"), 11)
	require.Equal(t, map[string]any{"limit": -1.0, "in_use": 2.0, "reserved": 0.0},
		b.do(t, reader, "GET", "/os-quota-sets/"+project+"/detail", "").get("quota_set", "cores"))
	b.do(t, stranger, "GET", "/os-quota-sets/"+project, "").
		fails(403, "forbidden", "Policy doesn't allow os_compute_api:os-quota-sets:show to be performed.")
	b.do(t, stranger, "GET", "/os-quota-sets/"+project+"/detail", "").
		fails(403, "forbidden", "Policy doesn't allow os_compute_api:os-quota-sets:detail to be performed.")
	b.do(t, admin, "GET", "/os-quota-sets/"+elsewhere, "").ok(200)
}
