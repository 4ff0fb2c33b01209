package api_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

func TestLimits(t *testing.T) {
	t.Parallel()
	b := setup(t, quotas(compute.Quota{Instances: 7, Cores: 8, MemoryMB: -5, DiskGB: 9, KeyPairs: 6}))
	newServer(t, b, newHost(t, b, "host-a", "nova"), "one")
	newest := `{"limits":{"rate":[],"absolute":{"maxServerMeta":128,"maxTotalCores":8,"maxTotalInstances":7,"maxTotalKeypairs":6,"maxTotalRAMSize":-1,
		"maxServerGroups":0,"maxServerGroupMembers":0,"totalCoresUsed":2,"totalInstancesUsed":1,"totalRAMUsed":1024,"totalServerGroupsUsed":0}}}`
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
	b := setup(t, quotas(compute.Quota{Instances: 7, Cores: 8, MemoryMB: 9, DiskGB: 10, KeyPairs: 6}))
	newServer(t, b, newHost(t, b, "host-a", "nova"), "one")
	set := func(instances int) string {
		return fmt.Sprintf(`{"quota_set":{"id":"%s","instances":%d,"cores":8,"ram":9,"key_pairs":6,"metadata_items":128,"server_groups":0,"server_group_members":0}}`, project, instances)
	}
	b.do(t, reader, "GET", "/os-quota-sets/"+project, "", at("2.57")).is(200, set(7))
	b.do(t, reader, "GET", "/os-quota-sets/"+project+"/defaults", "", at("2.97")).is(200, set(3))
	require.Len(t, b.do(t, reader, "GET", "/os-quota-sets/"+project, "").keys("quota_set"), 15)
	require.Len(t, b.do(t, reader, "GET", "/os-quota-sets/"+project, "", at("2.36")).keys("quota_set"), 11)
	require.Equal(t, map[string]any{"limit": 8.0, "in_use": 2.0, "reserved": 0.0},
		b.do(t, reader, "GET", "/os-quota-sets/"+project+"/detail", "").get("quota_set", "cores"))
	b.do(t, stranger, "GET", "/os-quota-sets/"+project, "").
		fails(403, "forbidden", "Policy doesn't allow os_compute_api:os-quota-sets:show to be performed.")
	b.do(t, stranger, "GET", "/os-quota-sets/"+project+"/detail", "").
		fails(403, "forbidden", "Policy doesn't allow os_compute_api:os-quota-sets:detail to be performed.")
	b.do(t, admin, "GET", "/os-quota-sets/"+elsewhere, "").ok(200)
	b.do(t, reader, "GET", "/os-quota-sets/"+project+"?user_id=user-member", "", at("2.97")).is(200, set(7))
	for _, path := range []string{"", "/detail"} {
		b.do(t, reader, "GET", "/os-quota-sets/"+project+path+"?x=1", "", at("2.75")).
			fails(400, "badRequest", "Additional properties are not allowed ('x' was unexpected)")
	}
}

const elsewhereSet = "Quotas cannot be changed here. They are Keystone's limits of this service " +
	"(openstack limit create, openstack registered limit create), or strongroom's configuration (quota)."

func TestQuotaClassSets(t *testing.T) {
	t.Parallel()
	b := setup(t, quotas(compute.Quota{Instances: 7}))
	const path = "/os-quota-class-sets/default"
	b.do(t, admin, "GET", path, "", at("2.57")).is(200, `{"quota_class_set":{"id":"default","instances":3,"cores":0,"ram":0,"key_pairs":0,
		"metadata_items":128,"server_groups":0,"server_group_members":0}}`)
	network := []string{"fixed_ips", "floating_ips", "security_groups", "security_group_rules"}
	files := []string{"injected_files", "injected_file_content_bytes", "injected_file_path_bytes"}
	all := []string{"id", "instances", "cores", "ram", "key_pairs", "metadata_items"}
	require.ElementsMatch(t, slices.Concat(all, network, files), b.do(t, admin, "GET", path, "", at("2.49")).keys("quota_class_set"))
	require.ElementsMatch(t, slices.Concat(all, files, []string{"server_groups", "server_group_members"}), b.do(t, admin, "GET", path, "", at("2.50")).keys("quota_class_set"))
	b.do(t, admin, "PUT", path, `{"quota_class_set":{"instances":1}}`).fails(403, "forbidden", elsewhereSet)
	b.do(t, member, "GET", path, "").fails(403, "forbidden", "Policy doesn't allow os_compute_api:os-quota-class-sets:show to be performed.")
}
