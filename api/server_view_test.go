package api_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

// The keys of a server at 2.1, and what later versions add, each to whom.
var (
	briefKeys = []string{
		"id", "name", "links", "status", "tenant_id", "user_id", "metadata", "hostId", "image", "flavor", "created", "updated",
		"addresses", "accessIPv4", "accessIPv6", "OS-DCF:diskConfig", "progress",
	}
	fullKeys = []string{
		"key_name", "config_drive", "security_groups", "OS-EXT-AZ:availability_zone", "OS-EXT-STS:power_state", "OS-EXT-STS:task_state",
		"OS-EXT-STS:vm_state", "os-extended-volumes:volumes_attached", "OS-SRV-USG:launched_at", "OS-SRV-USG:terminated_at",
	}
	adminKeys = []string{"OS-EXT-SRV-ATTR:host", "OS-EXT-SRV-ATTR:hypervisor_hostname", "OS-EXT-SRV-ATTR:instance_name"}
)

type addition struct {
	since int
	keys  []string
	brief bool // also in the short answer that an update had before 2.75
	admin bool
	list  bool // also in a list
}

var additions = []addition{
	{3, []string{
		"OS-EXT-SRV-ATTR:hostname", "OS-EXT-SRV-ATTR:kernel_id", "OS-EXT-SRV-ATTR:launch_index", "OS-EXT-SRV-ATTR:ramdisk_id",
		"OS-EXT-SRV-ATTR:reservation_id", "OS-EXT-SRV-ATTR:root_device_name", "OS-EXT-SRV-ATTR:user_data",
	}, false, true, true},
	{9, []string{"locked"}, true, false, true},
	{16, []string{"host_status"}, false, true, true},
	{19, []string{"description"}, true, false, true},
	{26, []string{"tags"}, true, false, true},
	{63, []string{"trusted_image_certificates"}, true, false, true},
	{71, []string{"server_groups"}, true, false, false},
	{73, []string{"locked_reason"}, true, false, true},
	{90, []string{"OS-EXT-SRV-ATTR:hostname"}, true, false, true},
	{96, []string{"pinned_availability_zone"}, true, false, true},
}

func keysAt(version int, asAdmin, list, update bool) []string {
	brief := update && version < 75
	keys := slices.Clone(briefKeys)
	if !brief {
		keys = append(keys, fullKeys...)
		if asAdmin {
			keys = append(keys, adminKeys...)
		}
	}
	for _, a := range additions {
		if version < a.since || a.admin && !asAdmin || brief && !a.brief || list && !a.list {
			continue
		}
		keys = append(keys, a.keys...)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

func TestServerKeysAtEveryVersion(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.active()
	versions := []int{1, 2, 3, 8, 9, 15, 16, 18, 19, 25, 26, 46, 47, 62, 63, 70, 71, 72, 73, 74, 75, 89, 90, 95, 96, 97}
	for _, version := range versions {
		spoken := at(fmt.Sprintf("2.%d", version))
		for _, as := range []who{member, admin} {
			show := c.do(t, as, "GET", "/servers/"+id, "", spoken).ok(200)
			require.ElementsMatch(t, keysAt(version, as == admin, false, false), show.keys("server"), "show 2.%d", version)
			detail := c.do(t, as, "GET", "/servers/detail", "", spoken).ok(200)
			require.ElementsMatch(t, keysAt(version, as == admin, true, false), detail.keys("servers", 0), "detail 2.%d", version)
			update := c.do(t, as, "PUT", "/servers/"+id, `{"server":{"accessIPv4":"192.0.2.1"}}`, spoken).ok(200)
			require.ElementsMatch(t, keysAt(version, as == admin, false, true), update.keys("server"), "update 2.%d", version)
			list := c.do(t, as, "GET", "/servers", "", spoken).ok(200)
			require.ElementsMatch(t, []string{"id", "name", "links"}, list.keys("servers", 0))
			flavor := []string{"id", "links"}
			if version >= 47 {
				flavor = []string{"vcpus", "ram", "disk", "ephemeral", "swap", "original_name", "extra_specs"}
			}
			require.ElementsMatch(t, flavor, show.keys("server", "flavor"))
			require.ElementsMatch(t, []string{"id", "links"}, show.keys("server", "image"))
		}
	}
}

func TestServerAsItIsShown(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.create(map[string]any{"metadata": map[string]string{"a": "b"}, "availability_zone": "nova", "config_drive": true})
	c.settle(id, compute.VMActive, compute.TaskRebooting)
	c.exec(`UPDATE servers SET created_at = '2026-11-20 11:00:00.7+00', updated_at = '2026-11-20 12:00:01.9+00' WHERE id = $1`, id)
	link := func(path string) string { return `"http://cloud.example:8774` + path + `"` }
	common := `"id":"` + id + `","name":"one","status":"REBOOT","tenant_id":"` + project + `","user_id":"user-member","metadata":{"a":"b"},
		"hostId":"c56f911bba4dcc5f36ff36d585028d57e052f1703b5f190e233fd0f9",
		"links":[{"rel":"self","href":` + link("/v2.1/servers/"+id) + `},{"rel":"bookmark","href":` + link("/servers/"+id) + `}],
		"image":{"id":"` + c.image + `","links":[{"rel":"bookmark","href":` + link("/images/"+c.image) + `}]},
		"created":"2026-11-20T11:00:00Z","updated":"2026-11-20T12:00:01Z","addresses":{},"accessIPv4":"","accessIPv6":"",
		"OS-DCF:diskConfig":"MANUAL","key_name":null,"config_drive":"True","security_groups":[{"name":"default"}],
		"OS-EXT-AZ:availability_zone":"nova","OS-EXT-STS:power_state":1,"OS-EXT-STS:task_state":"rebooting","OS-EXT-STS:vm_state":"active",
		"os-extended-volumes:volumes_attached":[],"OS-SRV-USG:launched_at":"2026-11-20T12:00:00.500000","OS-SRV-USG:terminated_at":null`
	c.do(t, member, "GET", "/servers/"+id, "").is(200, `{"server":{`+common+`,
		"flavor":{"id":"42","links":[{"rel":"bookmark","href":`+link("/flavors/42")+`}]}}}`)
	c.do(t, admin, "GET", "/servers/"+id, "", at("2.97")).is(200, `{"server":{`+common+`,
		"flavor":{"vcpus":1,"ram":512,"disk":1,"ephemeral":2,"swap":256,"original_name":"flavor-42","extra_specs":{}},
		"locked":false,"description":null,"tags":[],"trusted_image_certificates":null,"server_groups":[],"locked_reason":null,
		"pinned_availability_zone":"nova","host_status":"UP","OS-EXT-SRV-ATTR:host":"node-1","OS-EXT-SRV-ATTR:hypervisor_hostname":"node-1",
		"OS-EXT-SRV-ATTR:instance_name":"instance-`+id+`","OS-EXT-SRV-ATTR:hostname":"one","OS-EXT-SRV-ATTR:kernel_id":"",
		"OS-EXT-SRV-ATTR:launch_index":0,"OS-EXT-SRV-ATTR:ramdisk_id":"","OS-EXT-SRV-ATTR:root_device_name":"/dev/vda",
		"OS-EXT-SRV-ATTR:reservation_id":"`+c.text(`SELECT reservation_id FROM servers`)+`","OS-EXT-SRV-ATTR:user_data":null}}`)
}

func TestFaultAndProgress(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.create(nil)
	require.InDelta(t, 0, c.do(t, member, "GET", "/servers/"+id, "").ok(200).get("server", "progress"), 0)
	set := func(code int) {
		c.exec(`UPDATE servers SET vm_state = 'error', task_state = '', fault = $2 WHERE id = $1`, id, compute.Fault{
			Code: code, Message: compute.NoValidHost, Details: "inside", Created: c.clock(),
		})
	}
	set(500)
	a := c.do(t, member, "GET", "/servers/"+id, "").ok(200)
	require.Equal(t, "ERROR", a.get("server", "status"))
	require.NotContains(t, a.keys("server"), "progress")
	require.ElementsMatch(t, []string{"code", "created", "message"}, a.keys("server", "fault"))
	require.Equal(t, "No valid host was found. There are not enough hosts available.", a.get("server", "fault", "message"))
	require.Equal(t, "inside", c.do(t, admin, "GET", "/servers/"+id, "").get("server", "fault", "details"))
	set(400)
	require.Equal(t, "inside", c.do(t, member, "GET", "/servers/"+id, "").get("server", "fault", "details"))
	c.settle(id, compute.VMActive, compute.TaskNone)
	require.NotContains(t, c.do(t, member, "GET", "/servers/"+id, "").keys("server"), "fault")
}

func TestOtherProjectsServersAreNotThere(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.active()
	missing := "Instance " + id + " could not be found."
	for _, path := range []string{"", "/metadata", "/ips", "/os-interface", "/os-volume_attachments", "/os-security-groups", "/os-instance-actions"} {
		c.do(t, stranger, "GET", "/servers/"+id+path, "").fails(404, "itemNotFound", missing)
		c.do(t, reader, "GET", "/servers/"+id+path, "").ok(200)
		c.do(t, admin, "GET", "/servers/"+id+path, "").ok(200)
	}
	c.do(t, stranger, "DELETE", "/servers/"+id, "").fails(404, "itemNotFound", missing)
	c.do(t, stranger, "PUT", "/servers/"+id, `{"server":{"name":"x"}}`).fails(404, "itemNotFound", missing)
	c.act(t, stranger, id, `{"os-stop":null}`).fails(404, "itemNotFound", missing)
	c.do(t, reader, "DELETE", "/servers/"+id, "").fails(403, "forbidden", "Policy doesn't allow os_compute_api:servers:delete to be performed.")
	c.act(t, reader, id, `{"os-stop":null}`).fails(403, "forbidden", "Policy doesn't allow os_compute_api:servers:stop to be performed.")
	c.do(t, member, "GET", "/servers/nonsense", "").fails(404, "itemNotFound", "Instance nonsense could not be found.")
	c.do(t, member, "GET", "/servers/"+project, "").fails(404, "itemNotFound", "Instance "+project+" could not be found.")
}

func TestUpdateServer(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.create(map[string]any{"description": "old"})
	put := func(body, version string) answer { return c.do(t, member, "PUT", "/servers/"+id, body, at(version)) }
	a := put(`{"server":{"name":"two","accessIPv4":"192.0.2.1","accessIPv6":"2001:db8::1","OS-DCF:diskConfig":"AUTO","hostname":"web"}}`, "2.90").ok(200)
	require.Equal(t, []any{"two", "192.0.2.1", "2001:db8::1", "AUTO", "web", "old"}, []any{
		a.get("server", "name"), a.get("server", "accessIPv4"), a.get("server", "accessIPv6"), a.get("server", "OS-DCF:diskConfig"),
		a.get("server", "OS-EXT-SRV-ATTR:hostname"), a.get("server", "description"),
	})
	require.Nil(t, put(`{"server":{"description":null}}`, "2.90").ok(200).get("server", "description"))
	require.Equal(t, "two", put(`{"server":{}}`, "2.1").ok(200).get("server", "name"))
	put(`{"server":{"accessIPv4":"nowhere"}}`, "2.1").fails(400, "badRequest",
		"Invalid input for field/attribute accessIPv4. Value: nowhere. 'nowhere' is not a 'ipv4'")
	put(`{"server":{"description":"x"}}`, "2.18").fails(400, "badRequest",
		"Invalid input for field/attribute server. Value: {'description': 'x'}. Additional properties are not allowed ('description' was unexpected)")
	put(`{"server":{"hostname":"x y"}}`, "2.90").ok(400)
	put(`{}`, "2.1").ok(400)
}
