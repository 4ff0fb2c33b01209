package api_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

// What clients try that is not a server's life: each is what Nova says, by version.
func TestWhatIsElsewhere(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.active()
	for _, version := range []string{"2.1", "2.35", "2.97"} {
		for _, route := range []string{
			"GET /os-fixed-ips/192.0.2.1", "GET /os-floating-ips-bulk", "POST /os-networks/add", "GET /os-fping", "GET /servers/" + id + "/os-virtual-interfaces",
		} {
			method, path, _ := strings.Cut(route, " ")
			c.do(t, member, method, path, "", at(version)).fails(410, "computeFault", gone)
		}
	}
	for _, path := range []string{"/os-floating-ips", "/os-floating-ips/1", "/os-floating-ip-pools"} {
		c.do(t, member, "GET", path, "", at("2.35")).fails(404, "itemNotFound", "This API does not pass this on. Ask the network service itself.")
		c.do(t, member, "GET", path, "", at("2.36")).fails(404, "itemNotFound", "API version 2.36 is not supported on this method.")
	}
	c.act(t, member, id, `{"addFloatingIp":{"address":"192.0.2.1"}}`, at("2.43")).fails(400, "badRequest",
		"Addresses of a server are changed at its ports. Ask the network service itself.")
	c.act(t, member, id, `{"addFloatingIp":{"address":"192.0.2.1"}}`, at("2.44")).fails(404, "itemNotFound", "API version 2.44 is not supported on this method.")
	volume := uuid.NewString()
	c.do(t, member, "GET", "/servers/"+id+"/os-volume_attachments/"+volume, "").fails(404, "itemNotFound", "Instance "+id+" is not attached to volume "+volume)
	c.do(t, member, "GET", "/extensions/os-hosts", "").ok(200)
	c.do(t, member, "GET", "/extensions/os-security-groups", "").ok(200)
	c.do(t, member, "GET", "/extensions/os-floating-ips", "").ok(404)
}

func TestHostsOfOldVersions(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.active()
	c.exec(`DELETE FROM claims`)
	c.exec(`INSERT INTO claims (server_id, host_id, operation_id, vcpus, memory_mb, disk_gb) VALUES ($1, $2, 'req-1', 2, 64, 3)`, id, c.host)
	listed := c.do(t, admin, "GET", "/os-hosts", "", at("2.42")).ok(200)
	name := listed.get("hosts", 0, "host_name").(string)
	require.Equal(t, "compute", listed.get("hosts", 0, "service"))
	require.Empty(t, c.do(t, admin, "GET", "/os-hosts?zone=none", "", at("2.1")).ok(200).get("hosts"))
	got := c.do(t, admin, "GET", "/os-hosts/"+name, "", at("2.42")).ok(200)
	for i, want := range []string{"(total)", "(used_now)", "(used_max)", project} {
		require.Equal(t, want, got.get("host", i, "resource", "project"))
	}
	for _, i := range []int{2, 3} {
		require.Equal(t, map[string]any{"host": name, "project": got.get("host", i, "resource", "project"), "cpu": 2.0, "memory_mb": 64.0, "disk_gb": 3.0},
			got.get("host", i, "resource"))
	}
	c.do(t, admin, "PUT", "/os-hosts/"+name, `{"status":"disable"}`, at("2.42")).fails(501, "notImplemented", "The requested functionality is not supported.")
	c.do(t, admin, "GET", "/os-hosts/nowhere/reboot", "", at("2.42")).fails(404, "itemNotFound", "Compute host nowhere could not be found.")
	c.do(t, admin, "GET", "/os-hosts", "", at("2.43")).fails(404, "itemNotFound", "API version 2.43 is not supported on this method.")
}

func TestTopology(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.active()
	path := "/servers/" + id + "/topology"
	for said, kib := range map[string]string{"": "null", "small": "null", "large": "null", "2MB": "2048", "1048576": "1048576"} {
		c.exec(`UPDATE servers SET flavor = jsonb_set(flavor, '{extra_specs}', jsonb_build_object('hw:mem_page_size', $2::text)) WHERE id = $1`, id, said)
		c.do(t, member, "GET", path, "", at("2.78")).is(200, `{"nodes":[],"pagesize_kb":`+kib+`}`)
	}
	c.do(t, member, "GET", path+"?a=b", "", at("2.78")).ok(400)
	c.do(t, member, "GET", path, "", at("2.77")).fails(404, "itemNotFound", "API version 2.77 is not supported on this method.")
}

func TestPasswordsAndCrashDumps(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.active()
	c.act(t, member, id, `{"changePassword":{"adminPass":"canary"}}`).fails(409, "conflictingRequest", "QEMU guest agent is not enabled")
	c.act(t, member, id, `{"changePassword":{}}`).ok(400)
	c.do(t, member, "GET", "/servers/"+id+"/os-server-password", "").is(200, `{"password":""}`)
	c.act(t, member, id, `{"trigger_crash_dump":null}`, at("2.16")).fails(404, "itemNotFound", "API version 2.16 is not supported on this method.")
	c.act(t, member, id, `{"trigger_crash_dump":{}}`, at("2.17")).ok(400)
	c.act(t, member, id, `{"trigger_crash_dump":null}`, at("2.17")).ok(202)
	c.act(t, member, id, `{"trigger_crash_dump":null}`, at("2.17")).fails(409, "conflictingRequest",
		"Cannot 'trigger_crash_dump' instance "+id+" while it is in task_state triggering_crash_dump")
	c.settle(id, compute.VMStopped, compute.TaskNone)
	c.act(t, member, id, `{"changePassword":{"adminPass":"canary"}}`).fails(409, "conflictingRequest",
		"Cannot 'changePassword' instance "+id+" while it is in vm_state stopped")
}
