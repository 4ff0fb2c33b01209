package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

func groupBody(rest string) string { return `{"server_group":{"name":"g",` + rest + `}}` }

func TestServerGroups(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	path := "/os-server-groups"
	a := c.do(t, member, "POST", path, groupBody(`"policies":["anti-affinity"]`)).ok(200)
	require.ElementsMatch(t, []string{"id", "name", "policies", "metadata", "members"}, a.keys("server_group"))
	first := a.get("server_group", "id").(string)
	a = c.do(t, member, "POST", path, groupBody(`"policies":["soft-affinity"]`), at("2.15")).ok(200)
	require.Equal(t, "user-member", a.get("server_group", "user_id"))
	require.Equal(t, project, a.get("server_group", "project_id"))
	c.do(t, member, "POST", path, groupBody(`"policy":"anti-affinity","rules":{"max_server_per_host":"3"}`), at("2.64")).ok(200)
	c.do(t, member, "POST", path, groupBody(`"policy":"affinity","rules":{}`), at("2.97")).ok(200)

	require.Equal(t, map[string]any{"max_server_per_host": 3.0}, c.do(t, reader, "GET", path, "", at("2.64")).ok(200).get("server_groups", 2, "rules"))
	require.Equal(t, map[string]any{}, c.do(t, reader, "GET", path, "", at("2.64")).get("server_groups", 3, "rules"))
	require.Equal(t, []any{"anti-affinity"}, c.do(t, reader, "GET", path+"?offset=2&limit=1", "").get("server_groups", 0, "policies"))
	require.Empty(t, c.do(t, reader, "GET", path+"?offset=99999999999", "").ok(200).get("server_groups"))
	require.Equal(t, []any{}, c.do(t, stranger, "GET", path+"?all_projects=1", "").ok(200).get("server_groups"), "it is dropped for others than administrators")
	require.Equal(t, []any{}, c.do(t, operator, "GET", path, "").ok(200).get("server_groups"))
	require.Len(t, c.do(t, operator, "GET", path+"?all_projects=1", "").ok(200).get("server_groups"), 4)

	for name, bad := range map[string]struct{ version, body, want string }{
		"soft policies are later": {"2.14", groupBody(`"policies":["soft-affinity"]`), "is not one of"},
		"two policies":            {"2.15", groupBody(`"policies":["affinity","anti-affinity"]`), "policies"},
		"no policy":               {"2.15", groupBody(`"policies":[]`), "policies"},
		"the old form":            {"2.64", groupBody(`"policies":["affinity"]`), "'policy' is a required property"},
		"rules of another policy": {"2.64", groupBody(`"policy":"affinity","rules":{"max_server_per_host":1}`), "Only anti-affinity policy supports rules."},
		"a rule of none":          {"2.64", groupBody(`"policy":"anti-affinity","rules":{"max_server_per_host":0}`), "max_server_per_host"},
		"another rule":            {"2.64", groupBody(`"policy":"anti-affinity","rules":{"most":1}`), "Additional properties are not allowed ('most' was unexpected)"},
	} {
		got := c.do(t, member, "POST", path, bad.body, at(bad.version)).ok(400)
		require.Contains(t, got.body, bad.want, name)
	}
	c.do(t, reader, "GET", path+"?shape=round", "", at("2.74")).ok(200)
	c.do(t, reader, "GET", path+"?shape=round", "", at("2.75")).ok(400)
	for _, id := range []string{"none", uuid.NewString()} {
		c.do(t, member, "GET", path+"/"+id, "").fails(404, "itemNotFound", "Instance group "+id+" could not be found.")
		c.do(t, member, "DELETE", path+"/"+id, "").fails(404, "itemNotFound", "Instance group "+id+" could not be found.")
	}

	id := c.createHinted(map[string]any{}, `{"group":"`+first+`"}`)
	deleted := c.createHinted(map[string]any{}, `{"group":"`+first+`"}`)
	c.exec(`UPDATE servers SET deleted_at = now() WHERE id = $1`, deleted)
	require.Equal(t, []any{id}, c.do(t, reader, "GET", path+"/"+first, "").ok(200).get("server_group", "members"))
	require.Equal(t, []any{first}, c.do(t, reader, "GET", "/servers/"+id, "", at("2.71")).ok(200).get("server", "server_groups"))
	c.do(t, member, "DELETE", path+"/"+first, "").is(204, "")
	require.Equal(t, []any{}, c.do(t, reader, "GET", "/servers/"+id, "", at("2.71")).ok(200).get("server", "server_groups"))
}

// createHinted creates a server with hints.
func (c *cloud) createHinted(more map[string]any, hints string) string {
	c.t.Helper()
	return c.do(c.t, member, "POST", "/servers", c.hinted(more, hints), at("2.97")).ok(202).get("server", "id").(string)
}

func (c *cloud) hinted(more map[string]any, hints string) string {
	return strings.TrimSuffix(c.body(more), "}") + `,"os:scheduler_hints":` + hints + `}`
}

func TestQuotasOfServerGroups(t *testing.T) {
	t.Parallel()
	quota := compute.NoQuota
	quota.Groups, quota.GroupMembers = 2, 3
	c := setupCloud(t, quotas(quota))
	var ids []string
	for range 2 {
		ids = append(ids, c.do(t, member, "POST", "/os-server-groups", groupBody(`"policies":["affinity"]`)).ok(200).get("server_group", "id").(string))
	}
	c.do(t, member, "POST", "/os-server-groups", groupBody(`"policies":["affinity"]`)).fails(403, "forbidden", "Quota exceeded, too many server groups.")
	c.do(t, stranger, "POST", "/os-server-groups", groupBody(`"policies":["affinity"]`)).ok(200)
	limits := c.do(t, member, "GET", "/limits", "").ok(200)
	require.Equal(t, []any{2.0, 3.0, 2.0}, []any{
		limits.get("limits", "absolute", "maxServerGroups"), limits.get("limits", "absolute", "maxServerGroupMembers"),
		limits.get("limits", "absolute", "totalServerGroupsUsed"),
	})
	used := c.do(t, member, "GET", "/os-quota-sets/"+project+"/detail", "").ok(200)
	require.Equal(t, map[string]any{"limit": 2.0, "in_use": 2.0, "reserved": 0.0}, used.get("quota_set", "server_groups"))

	hints := `{"group":"` + ids[0] + `"}`
	c.do(t, member, "POST", "/servers", c.hinted(map[string]any{"min_count": 2}, hints), at("2.97")).ok(202)
	c.do(t, member, "POST", "/servers", c.hinted(map[string]any{"min_count": 2}, hints), at("2.97")).
		fails(403, "forbidden", "Quota exceeded, too many servers in group")
	require.Equal(t, 2, c.count(`SELECT count(*) FROM servers`))
	c.createHinted(nil, hints)
	c.do(t, member, "POST", "/servers", c.hinted(nil, hints), at("2.97")).fails(403, "forbidden", "Quota exceeded, too many servers in group")
	c.createHinted(nil, `{"group":"`+ids[1]+`"}`)
}

// A group that is deleted after a create has found it refuses the create as one that never was.
func TestAGroupIsDeletedUnderACreate(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	group := c.do(t, member, "POST", "/os-server-groups", groupBody(`"policies":["affinity"]`)).ok(200).get("server_group", "id").(string)
	c.exec(`CREATE FUNCTION deleted_meanwhile() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN DELETE FROM server_groups WHERE id = NEW.group_id; RETURN NEW; END $$`)
	c.exec(`CREATE TRIGGER meanwhile BEFORE INSERT ON server_hints FOR EACH ROW EXECUTE FUNCTION deleted_meanwhile()`)
	c.do(t, member, "POST", "/servers", c.hinted(nil, `{"group":"`+group+`"}`), at("2.97")).fails(400, "badRequest", "Instance group "+group+" could not be found.")
	require.Zero(t, c.count(`SELECT count(*) FROM servers`))
}

func TestSchedulerHints(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	group := c.do(t, member, "POST", "/os-server-groups", groupBody(`"policies":["affinity"]`)).ok(200).get("server_group", "id").(string)
	theirs := c.do(t, stranger, "POST", "/os-server-groups", groupBody(`"policies":["affinity"]`)).ok(200).get("server_group", "id").(string)
	one, two := c.createHinted(nil, `{}`), c.createHinted(nil, `{}`)
	require.Zero(t, c.count(`SELECT count(*) FROM server_hints`))
	id := c.createHinted(nil, fmt.Sprintf(`{"group":"%s","different_host":"%s","same_host":["%s","%s"]}`, group, one, one, two))
	require.Equal(t, 1, c.count(`SELECT count(*) FROM server_hints WHERE server_id = $1 AND group_id = $2 AND different_host = ARRAY[$3]::uuid[]
		AND same_host = ARRAY[$3, $4]::uuid[] AND host_id IS NULL AND requested_by = ''`, id, group, one, two))
	body := strings.Replace(c.hinted(nil, `{"group":"`+group+`"}`), "os:scheduler_hints", "OS-SCH-HNT:scheduler_hints", 1)
	c.do(t, member, "POST", "/servers", body, at("2.97")).ok(202)
	require.Equal(t, 2, c.count(`SELECT count(*) FROM server_hints WHERE group_id = $1`, group))

	nobodys := uuid.NewString()
	other := c.do(t, stranger, "POST", "/servers", c.body(nil), at("2.97")).ok(202).get("server", "id").(string)
	for hints, want := range map[string]string{
		`{"group":"` + nobodys + `"}`:           "Instance group " + nobodys + " could not be found.",
		`{"group":"` + theirs + `"}`:            "Instance group " + theirs + " could not be found.",
		`{"different_host":"` + nobodys + `"}`:  "Instance " + nobodys + " could not be found.",
		`{"same_host":["` + other + `"]}`:       "Instance " + other + " could not be found.",
		`{"query":"[\">=\",\"$free_ram_mb\"]"}`: "Scheduler hint 'query' is not supported. Those that are: group, different_host, same_host.",
	} {
		c.do(t, member, "POST", "/servers", c.hinted(nil, hints), at("2.97")).fails(400, "badRequest", want)
	}
	for _, hints := range []string{`{"group":"mine"}`, `{"same_host":["a"]}`, `{"different_host":3}`, `[]`, fmt.Sprintf(`{"same_host":["%s","%s"]}`, one, one)} {
		c.do(t, member, "POST", "/servers", c.hinted(nil, hints), at("2.97")).ok(400)
	}
}

// What a create may ask for its host by name (2.74), and where it may not.
func TestRequestedHosts(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	try := func(as who, more map[string]any) answer {
		return c.do(t, as, "POST", "/servers", c.body(more), at("2.97"))
	}
	for _, more := range []map[string]any{
		{"availability_zone": "nova:node-1"}, {"availability_zone": ":node-1"}, {"availability_zone": "nova::node-1"},
		{"availability_zone": "nova:node-1:node-1"}, {"host": "node-1"}, {"hypervisor_hostname": "node-1"},
		{"host": "node-1", "hypervisor_hostname": "node-1", "availability_zone": "nova"},
	} {
		id := try(admin, more).ok(202).get("server", "id").(string)
		require.Equal(t, 1, c.count(`SELECT count(*) FROM server_hints h JOIN servers s ON s.id = h.server_id
			WHERE s.id = $1 AND h.host_id = $2 AND h.requested_by = s.current_operation AND s.availability_zone IN ('', 'nova')`, id, c.host), "%v", more)
	}
	rule := "Policy doesn't allow %s to be performed."
	try(member, map[string]any{"availability_zone": "nova:node-1"}).fails(403, "forbidden", fmt.Sprintf(rule, "os_compute_api:servers:create:forced_host"))
	try(member, map[string]any{"host": "node-1"}).fails(403, "forbidden", fmt.Sprintf(rule, "compute:servers:create:requested_destination"))
	c.exec(`INSERT INTO hosts (id, name, vcpus, memory_mb, disk_gb, last_seen, availability_zone) VALUES (gen_random_uuid(), 'node-2', 8, 8192, 100, now(), 'east')`)
	for want, more := range map[string]map[string]any{
		"Compute host node-9 could not be found.":                   {"host": "node-9"},
		"Compute host node-1 could not be found.":                   {"host": "node-1", "hypervisor_hostname": "node-2"},
		"Host node-1 is not in availability zone east.":             {"availability_zone": "east:node-1"},
		"The requested availability zone is not available":          {"availability_zone": "west"},
		"Invalid input received: Unable to parse availability_zone": {"availability_zone": "a:b:c:d"},
		"One mechanism with host and/or hypervisor_hostname and another mechanism with zone:host:node are mutually exclusive.": {
			"availability_zone": "nova:node-1", "host": "node-1",
		},
	} {
		try(admin, more).fails(400, "badRequest", want)
	}
}
