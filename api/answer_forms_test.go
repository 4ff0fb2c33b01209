package api_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// P25: answers have their forms also at the versions between those that other tests speak: each request here is
// compared with the schema of its route.
func TestP25FormsBetweenVersions(t *testing.T) {
	t.Parallel()
	c := setupRebuild(t)
	id := c.active()
	op := string(c.starter.ops()[0].ID)
	c.exec(`INSERT INTO operation_events (operation_id, event, started_at) VALUES ($1, 'claim_host', now())`, op)
	c.exec(`INSERT INTO migrations (uuid, operation_id, server_id, type, status, source, destination, old_flavor, new_flavor, project_id, user_id)
		VALUES (gen_random_uuid(), $2, $1, 'live-migration', 'running', 'a', 'b', '1', '1', 'p', 'u')`, id, op)
	group := c.do(t, member, "POST", "/os-server-groups", groupBody(`"policies":["affinity"]`)).ok(200).get("server_group", "id").(string)
	const flavor = `{"flavor":{"id":"between","name":"between","ram":512,"vcpus":1,"disk":1,"description":"d"}}`
	c.do(t, admin, "POST", "/flavors", flavor, at("2.55")).ok(200)
	require.Contains(t, c.do(t, admin, "PUT", "/flavors/between", `{"flavor":{"description":"e"}}`, at("2.61")).ok(200).keys("flavor"), "extra_specs")

	server := "/servers/" + id
	for _, asked := range []struct{ path, first, last string }{
		{"/os-hypervisors", "2.33", "2.52"},
		{"/os-quota-sets/" + project + "/defaults", "2.36", "2.56"},
		{"/os-quota-sets/" + project + "/detail", "2.36", "2.56"},
		{"/os-server-groups?all_projects=1", "2.13", "2.63"},
		{"/os-server-groups/" + group, "2.13", "2.63"},
		{server + "/migrations", "2.59", "2.79"},
		{server + "/os-instance-actions/" + op, "2.58", "2.61"},
		{server + "/os-instance-actions/" + op, "2.62", "2.83"},
	} {
		for _, version := range []string{asked.first, asked.last} {
			c.do(t, admin, "GET", asked.path, "", at(version)).ok(200)
		}
	}
	for _, path := range []string{"/operations", "/operations/" + op} {
		for _, version := range []string{"2.61", "2.62", "2.83", "2.84"} {
			c.do(t, admin, "GET", server+path, "", header("OpenStack-API-Version", "compute "+version+", strongroom 1.0")).ok(200)
		}
	}
	for _, version := range []string{"2.9", "2.18", "2.19", "2.25", "2.26", "2.46", "2.71", "2.72"} {
		c.rebuild(t, member, id, c.image, "", version).ok(202)
		c.settle(id, "active", "")
	}
}
