package api_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// aggregate makes an aggregate and gives its number.
func (c *cloud) aggregate(name, zone string) string {
	c.t.Helper()
	body := fmt.Sprintf(`{"aggregate":{"name":%q}}`, name)
	if zone != "" {
		body = fmt.Sprintf(`{"aggregate":{"name":%q,"availability_zone":%q}}`, name, zone)
	}
	return fmt.Sprint(c.do(c.t, admin, "POST", "/os-aggregates", body).ok(200).get("aggregate", "id"))
}

// actOn asks for an action of the aggregate with a number.
func (c *cloud) actOn(number, action string) answer {
	c.t.Helper()
	return c.do(c.t, admin, "POST", "/os-aggregates/"+number+"/action", action)
}

func adds(host string) string    { return fmt.Sprintf(`{"add_host":{"host":%q}}`, host) }
func removes(host string) string { return fmt.Sprintf(`{"remove_host":{"host":%q}}`, host) }
func sets(metadata string) string {
	return `{"set_metadata":{"metadata":` + metadata + `}}`
}

func TestAggregates(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	c.do(t, admin, "GET", "/os-aggregates", "").is(200, `{"aggregates":[]}`)
	bare := []string{"id", "name", "availability_zone", "created_at", "updated_at", "deleted", "deleted_at"}
	full := append([]string{"hosts", "metadata"}, bare...)
	made := c.do(t, admin, "POST", "/os-aggregates", `{"aggregate":{"name":"fast","availability_zone":"east"}}`, at("2.40")).ok(200)
	require.ElementsMatch(t, bare, made.keys("aggregate"))
	require.Equal(t, "east", made.get("aggregate", "availability_zone"))
	require.Nil(t, made.get("aggregate", "updated_at"))
	one := "/os-aggregates/" + fmt.Sprint(made.get("aggregate", "id"))
	late := c.do(t, admin, "POST", "/os-aggregates", `{"aggregate":{"name":"slow","availability_zone":null}}`, at("2.41")).ok(200)
	require.ElementsMatch(t, append(bare, "uuid"), late.keys("aggregate"))
	require.Nil(t, late.get("aggregate", "availability_zone"))
	require.ElementsMatch(t, full, c.do(t, admin, "GET", one, "", at("2.40")).ok(200).keys("aggregate"))
	require.ElementsMatch(t, append(full, "uuid"), c.do(t, admin, "GET", one, "", at("2.97")).ok(200).keys("aggregate"))
	listed := c.do(t, admin, "GET", "/os-aggregates", "", at("2.97")).ok(200)
	require.Equal(t, []any{"fast", "slow"}, []any{listed.get("aggregates", 0, "name"), listed.get("aggregates", 1, "name")})
	require.ElementsMatch(t, append(full, "uuid"), listed.keys("aggregates", 1))

	changed := c.do(t, admin, "PUT", one, `{"aggregate":{"name":" faster "}}`).ok(200)
	require.Equal(t, "faster", changed.get("aggregate", "name"))
	require.Equal(t, "east", changed.get("aggregate", "availability_zone"), "what is not named stays")
	require.NotNil(t, changed.get("aggregate", "updated_at"))
	changed = c.do(t, admin, "PUT", one, `{"aggregate":{"availability_zone":"west"}}`).ok(200)
	require.Equal(t, []any{"faster", "west"}, []any{changed.get("aggregate", "name"), changed.get("aggregate", "availability_zone")})
	number := fmt.Sprint(made.get("aggregate", "id"))
	c.actOn(number, sets(`{"ssd":"true","color":"blue"}`)).ok(200)
	set := c.actOn(number, sets(`{"ssd":null,"none":null,"size":"","availability_zone":"north"}`)).ok(200)
	require.Equal(t, map[string]any{"color": "blue", "size": "", "availability_zone": "north"}, set.get("aggregate", "metadata"))
	require.Equal(t, "north", set.get("aggregate", "availability_zone"))

	require.Equal(t, []any{"node-1"}, c.actOn(number, adds("node-1")).ok(200).get("aggregate", "hosts"))
	c.do(t, admin, "DELETE", one, "").fails(400, "badRequest", "Cannot remove host from aggregate "+number+". Reason: Host aggregate is not empty.")
	require.Equal(t, []any{}, c.actOn(number, removes("node-1")).ok(200).get("aggregate", "hosts"))
	c.do(t, admin, "DELETE", one, "").is(200, "")
	c.do(t, admin, "GET", one, "").fails(404, "itemNotFound", "Aggregate "+number+" could not be found.")
	require.Equal(t, 1, c.count("SELECT count(*) FROM aggregates"))
}

// What is refused, in Nova's words.
func TestAggregatesThatAreRefused(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	fast, slow := c.aggregate("fast", "east"), c.aggregate("slow", "")
	c.actOn(fast, adds("node-1")).ok(200)
	image := uuid.NewString()
	const neither = "'a:b' is not valid under any of the given schemas"
	for _, v := range []struct {
		method, path, body string
		code               int
		want               string
	}{
		{"GET", "/-1", "", 404, "Aggregate -1 could not be found."}, // K33
		{"GET", "/99999999999999999999", "", 404, "Aggregate 99999999999999999999 could not be found."},
		{"GET", "/x", "", 400, "Invalid input received: id must be an integer"},
		{"PUT", "/x", `{"aggregate":{"name":"a"}}`, 400, "Invalid input received: id must be an integer"},
		{"DELETE", "/x", "", 400, "Invalid input received: id must be an integer"},
		{"POST", "/x/action", adds("node-1"), 400, "Invalid input received: id must be an integer"},
		{"POST", "/x/action", removes("node-1"), 400, "Invalid input received: id must be an integer"},
		{"POST", "/x/action", sets(`{}`), 400, "Invalid input received: id must be an integer"},
		{"POST", "/x/images", `{"cache":[{"id":"` + image + `"}]}`, 400, "Invalid input received: id must be an integer"},
		{"PUT", "/0", `{"aggregate":{"name":"a"}}`, 404, "Aggregate 0 could not be found."},
		{"DELETE", "/0", "", 404, "Aggregate 0 could not be found."},
		{"POST", "/0/action", adds("node-1"), 404, "Aggregate 0 could not be found."},
		{"POST", "/0/action", removes("node-1"), 404, "Cannot remove host node-1 in aggregate 0"},
		{"POST", "/0/action", sets(`{}`), 404, "Aggregate 0 could not be found."},
		{"POST", "/0/images", `{"cache":[{"id":"` + image + `"}]}`, 404, "Aggregate 0 could not be found."},

		{"POST", "", `{"aggregate":{"name":"fast"}}`, 409, "Aggregate fast already exists."},
		{"PUT", "/" + slow, `{"aggregate":{"name":"fast"}}`, 409, "Aggregate fast already exists."},
		{"POST", "", `{"aggregate":{}}`, 400, "Invalid input for field/attribute aggregate. Value: {}. 'name' is a required property"},
		{"POST", "", `{"aggregate":{"name":"a","availability_zone":"a:b"}}`, 400, "Invalid input for field/attribute availability_zone. Value: a:b. " + neither},
		{"PUT", "/" + slow, `{"aggregate":{"availability_zone":"a:b"}}`, 400, "Invalid input for field/attribute availability_zone. Value: a:b. " + neither},
		{"PUT", "/" + slow, `{"aggregate":{}}`, 400, "Invalid input for field/attribute aggregate. Value: {}. {} is not valid under any of the given schemas"},
		{"PUT", "/" + slow, `{"aggregate":{"availability_zone":null}}`, 400, "Cannot update aggregate " + slow + ". Reason: Aggregate slow does not support empty named availability zone."},
		{"POST", "/" + fast + "/action", sets(`{"availability_zone":null}`), 400, "Cannot update metadata of aggregate " + fast + ". Reason: Aggregate fast does not support empty named availability zone."},
		{"POST", "/" + fast + "/action", sets(`{"availability_zone":""}`), 400, "Cannot update metadata of aggregate " + fast + ". Reason: Aggregate fast does not support empty named availability zone."},
		{"POST", "/" + fast + "/action", sets(`{"a":1}`), 400, "Invalid input for field/attribute a. Value: 1. 1 is not of type 'string', 'null'"},
		{"POST", "/" + fast + "/action", `{"set_metadata":{}}`, 400, "Invalid input for field/attribute set_metadata. Value: {}. 'metadata' is a required property"},
		{"POST", "/" + fast + "/action", `{"fly":{}}`, 400, "There is no such action: fly"},

		{"POST", "/" + fast + "/action", adds("node-1"), 409, "Aggregate " + fast + " already has host node-1."},
		{"POST", "/" + fast + "/action", adds("node-9"), 404, "Compute host node-9 could not be found."},
		{"POST", "/" + slow + "/action", removes("node-1"), 404, "Cannot remove host node-1 in aggregate " + slow},
		{"POST", "/" + fast + "/action", removes("node-9"), 404, "Cannot remove host node-9 in aggregate " + fast},

		{"POST", "/" + fast + "/images", `{"cache":[{"id":"` + image + `"},{"id":"` + image + `"}]}`, 400, "Duplicate images in request"},
		{"POST", "/" + fast + "/images", `{"cache":[{"id":"` + image + `"}]}`, 400,
			"Images are not cached ahead of servers: a host gets of an image service only what an operation on one of its servers uses."},
		{"POST", "/" + fast + "/images", `{"cache":[]}`, 400, "Invalid input for field/attribute cache. Value: []. [] is too short"},
	} {
		name := map[int]string{400: "badRequest", 404: "itemNotFound", 409: "conflictingRequest"}[v.code]
		c.do(t, admin, v.method, "/os-aggregates"+v.path, v.body, at("2.97")).fails(v.code, name, v.want)
	}
	c.do(t, admin, "POST", "/os-aggregates/"+fast+"/images", `{"cache":[{"id":"`+image+`"}]}`, at("2.80")).
		fails(404, "itemNotFound", "API version 2.80 is not supported on this method.")
	for rule, ask := range map[string][3]string{
		"os_compute_api:os-aggregates:index":        {"GET", "", ""},
		"os_compute_api:os-aggregates:show":         {"GET", "/" + fast, ""},
		"os_compute_api:os-aggregates:create":       {"POST", "", `{"aggregate":{"name":"a"}}`},
		"os_compute_api:os-aggregates:update":       {"PUT", "/" + fast, `{"aggregate":{"name":"a"}}`},
		"os_compute_api:os-aggregates:delete":       {"DELETE", "/" + fast, ""},
		"os_compute_api:os-aggregates:add_host":     {"POST", "/" + fast + "/action", adds("node-1")},
		"os_compute_api:os-aggregates:remove_host":  {"POST", "/" + fast + "/action", removes("node-1")},
		"os_compute_api:os-aggregates:set_metadata": {"POST", "/" + fast + "/action", sets(`{}`)},
		"compute:aggregates:images":                 {"POST", "/" + fast + "/images", `{"cache":[{"id":"` + image + `"}]}`},
	} {
		c.do(t, manager, ask[0], "/os-aggregates"+ask[1], ask[2], at("2.97")).fails(403, "forbidden", "Policy doesn't allow "+rule+" to be performed.")
	}
	require.Equal(t, "east", c.do(t, admin, "GET", "/os-aggregates/"+fast, "").get("aggregate", "availability_zone"), "nothing that was refused was done")
}

// A host is in the zone of its aggregate, wherever zones are shown or asked for, and in the one that it reports when it leaves.
func TestAHostIsInTheZoneOfItsAggregate(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	east := c.aggregate("east", "east")
	names := func(get answer, path ...any) string {
		t.Helper()
		return fmt.Sprint(get.get(path...))
	}
	inZone := func(zone string) {
		t.Helper()
		require.Equal(t, zone, names(c.do(t, reader, "GET", "/os-availability-zone", ""), "availabilityZoneInfo", 0, "zoneName"))
		detail := c.do(t, admin, "GET", "/os-availability-zone/detail", "")
		require.Equal(t, zone, names(detail, "availabilityZoneInfo", 0, "zoneName"))
		require.Equal(t, []string{"node-1"}, detail.keys("availabilityZoneInfo", 0, "hosts"))
		require.Len(t, detail.get("availabilityZoneInfo"), 1)
		require.Equal(t, zone, names(c.do(t, admin, "GET", "/os-services", ""), "services", 0, "zone"))
		require.Equal(t, zone, names(c.do(t, admin, "PUT", "/os-services/"+c.host.String(), `{"status":"enabled"}`, at("2.53")), "service", "zone"))
		require.Len(t, c.do(t, admin, "GET", "/os-hosts?zone="+zone, "").get("hosts"), 1)
		require.Equal(t, zone, names(c.do(t, admin, "GET", "/os-hosts", ""), "hosts", 0, "zone"))
		for _, other := range []string{"nova", "east", "west"} {
			got := c.do(t, admin, "POST", "/servers", c.body(map[string]any{"availability_zone": other}), at("2.97"))
			named := c.do(t, admin, "POST", "/servers", c.body(map[string]any{"availability_zone": other + ":node-1"}), at("2.97"))
			if other == zone {
				got.ok(202)
				named.ok(202)
				continue
			}
			got.fails(400, "badRequest", "The requested availability zone is not available")
			named.fails(400, "badRequest", "Host node-1 is not in availability zone "+other+".")
		}
	}
	inZone("nova")
	c.actOn(east, adds("node-1")).ok(200)
	inZone("east")
	c.do(t, admin, "PUT", "/os-aggregates/"+east, `{"aggregate":{"availability_zone":"west"}}`).ok(200)
	inZone("west")
	c.actOn(east, sets(`{"availability_zone":"east"}`)).ok(200)
	inZone("east")
	c.actOn(east, removes("node-1")).ok(200)
	inZone("nova")
}

// A host is in one zone alone.
func TestAHostIsInOneZone(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	east, west, also, plain := c.aggregate("east", "east"), c.aggregate("west", "west"), c.aggregate("also east", "east"), c.aggregate("plain", "")
	for _, number := range []string{east, also, plain} {
		c.actOn(number, adds("node-1")).ok(200)
	}
	const already = "One or more hosts already in availability zone(s) ['east']."
	c.actOn(west, adds("node-1")).fails(409, "conflictingRequest", "Cannot add host to aggregate "+west+". Reason: "+already)
	c.actOn(plain, sets(`{"availability_zone":"west"}`)).fails(400, "badRequest", "Cannot update metadata of aggregate "+plain+". Reason: "+already)
	c.do(t, admin, "PUT", "/os-aggregates/"+also, `{"aggregate":{"name":"x","availability_zone":"west"}}`).
		fails(400, "badRequest", "Cannot update aggregate "+also+". Reason: "+already)
	require.Equal(t, "also east", c.do(t, admin, "GET", "/os-aggregates/"+also, "").get("aggregate", "name"), "all of a change, or nothing")
	c.actOn(plain, sets(`{"availability_zone":"east"}`)).ok(200)
	require.Equal(t, 3, c.count("SELECT count(*) FROM aggregate_hosts"))

	for range 10 { // two at once
		c.exec("DELETE FROM aggregate_hosts")
		codes := make([]int, 2)
		var all sync.WaitGroup
		for i, number := range []string{east, west} {
			all.Go(func() { codes[i] = c.actOn(number, adds("node-1")).code })
		}
		all.Wait()
		require.ElementsMatch(t, []int{200, 409}, codes)
	}
}

// The zone of a host that has servers does not change: what is on record of them would not be true any more.
func TestTheZoneOfAHostWithServersStays(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	east, other, nova, plain := c.aggregate("east", "east"), c.aggregate("other", "east"), c.aggregate("nova", "nova"), c.aggregate("plain", "")
	id := c.active()
	from := func(how, from, to string) string {
		return "The host cannot be " + how + " the aggregate as the availability zone of the host would change from '" + from + "' to '" + to +
			"' but the host already has 1 instance(s). Changing the AZ of an existing instance is not supported by this action. Move the instances away from this host " +
			"then try again. If you need to move the instances between AZs then you can use shelve_offload and unshelve to achieve this."
	}
	const instances = "One or more hosts contain instances in this zone."
	refuses := func() {
		t.Helper()
		c.actOn(east, adds("node-1")).fails(409, "conflictingRequest", "Cannot add host to aggregate "+east+". Reason: "+from("added to", "nova", "east"))
	}
	refuses()
	c.exec("UPDATE servers SET host_id = NULL WHERE id = $1", id)
	c.actOn(east, adds("node-1")).ok(200)
	c.actOn(east, removes("node-1")).ok(200)
	c.exec("INSERT INTO claims (server_id, host_id, operation_id, vcpus, memory_mb, disk_gb) VALUES ($1, $2, 'req-1', 1, 1, 1)", id, c.host)
	refuses() // it is coming
	c.exec("UPDATE servers SET host_id = $2 WHERE id = $1", id, c.host)
	refuses()

	c.actOn(nova, adds("node-1")).ok(200) // the zone that it is in
	c.actOn(plain, adds("node-1")).ok(200)
	c.actOn(nova, removes("node-1")).ok(200)
	c.actOn(plain, sets(`{"availability_zone":"east"}`)).fails(400, "badRequest", "Cannot update metadata of aggregate "+plain+". Reason: "+instances)
	c.do(t, admin, "PUT", "/os-aggregates/"+plain, `{"aggregate":{"availability_zone":"east"}}`).
		fails(400, "badRequest", "Cannot update aggregate "+plain+". Reason: "+instances)
	c.actOn(plain, sets(`{"availability_zone":"nova"}`)).ok(200)
	c.actOn(plain, sets(`{"ssd":"true"}`)).ok(200)
	c.actOn(plain, removes("node-1")).ok(200)

	c.exec("DELETE FROM claims")
	c.exec("UPDATE servers SET deleted_at = now() WHERE id = $1", id)
	c.actOn(east, adds("node-1")).ok(200)
	c.actOn(other, adds("node-1")).ok(200)
	c.exec("UPDATE servers SET deleted_at = NULL, availability_zone = 'east' WHERE id = $1", id)
	c.actOn(other, removes("node-1")).ok(200) // the other one says the same
	c.actOn(east, removes("node-1")).fails(409, "conflictingRequest", "Cannot remove host from aggregate "+east+". Reason: "+from("removed from", "east", "nova"))
	require.Equal(t, "east", c.do(t, member, "GET", "/servers/"+id, "").get("server", "OS-EXT-AZ:availability_zone"))
}

// What a flavor asks of aggregates is an extra spec that is taken, with Nova's operators, and a host that is deleted leaves its aggregates.
func TestWhatGoesWithAggregates(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	const spec = `{"extra_specs":{"aggregate_instance_extra_specs:ssd":"<or> true <or> yes"}}`
	c.do(t, admin, "POST", "/flavors/"+flavorID+"/os-extra_specs", spec, at("2.86")).is(200, spec)
	number := c.aggregate("fast", "east")
	c.actOn(number, adds("node-1")).ok(200)
	c.exec("UPDATE hosts SET last_seen = now() - interval '1 day'")
	c.do(t, admin, "DELETE", "/os-services/"+c.host.String(), "", at("2.53")).is(204, "")
	require.Equal(t, []any{}, c.do(t, admin, "GET", "/os-aggregates/"+number, "").get("aggregate", "hosts"))
}

// A dry run says that the aggregates of a host keep a server from it, to administrators alone.
func TestADryRunGoesByAggregates(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	c.exec(`INSERT INTO hosts (id, name, vcpus, memory_mb, disk_gb, last_seen) VALUES (gen_random_uuid(), 'node-2', 8, 8192, 100, now())`)
	id := c.active()
	number := c.aggregate("theirs", "")
	c.actOn(number, adds("node-2")).ok(200)
	ask := func() answer {
		t.Helper()
		return c.act(t, admin, id, `{"dryRun":{"migrate":null}}`, at("2.97, strongroom 1.0")).ok(200)
	}
	require.NotContains(t, ask().body, "aggregate")
	c.actOn(number, sets(`{"filter_tenant_id":"`+strings.Repeat("f", 32)+`"}`)).ok(200)
	require.Contains(t, ask().body, "is in an aggregate of other projects")
	c.actOn(number, sets(`{"filter_tenant_id":"`+project+`"}`)).ok(200)
	require.NotContains(t, ask().body, "aggregate")
}
