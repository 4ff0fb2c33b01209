package api_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/schema"
)

// newHost registers a host as its worker does, in zone az.
func newHost(t *testing.T, b *bundle, name, az string) compute.HostID {
	t.Helper()
	id := compute.HostID{UUID: uuid.New()}
	_, err := schema.New(b.pool).ReportHost(t.Context(), schema.ReportHostParams{
		ID: id, Name: name, Address: "192.0.2.7", Traits: []string{}, Networks: []string{}, VCPUs: 8, MemoryMB: 16384, DiskGB: 100,
		VCPURatio: 16, MemoryRatio: 1, DiskRatio: 1, ReservedMemoryMB: 512, HypervisorType: "QEMU", HypervisorVersion: 7002000,
		CPUInfo: []byte(`{"arch":"x86_64"}`), AvailabilityZone: az, Uptime: "up 3 days", Release: "1",
	})
	require.NoError(t, err)
	return id
}

// newServer puts a server's row on a host, with its claim.
func newServer(t *testing.T, b *bundle, host compute.HostID, name string) compute.ServerID {
	t.Helper()
	id := compute.ServerID{UUID: uuid.New()}
	flavor, err := json.Marshal(compute.Flavor{ID: "1", VCPUs: 2, MemoryMB: 1024, RootGB: 10})
	require.NoError(t, err)
	_, err = b.pool.Exec(t.Context(), `INSERT INTO servers (id, project_id, user_id, name, hostname, reservation_id, vm_state, host_id, flavor)
		VALUES ($1, $2, 'user-member', $3, $3, 'r-1', 'active', $4, $5)`, id.UUID, project, name, host.UUID, flavor)
	require.NoError(t, err)
	_, err = b.pool.Exec(t.Context(), `INSERT INTO claims (server_id, host_id, operation_id, vcpus, memory_mb, disk_gb) VALUES ($1, $2, 'req-1', 2, 1024, 10)`,
		id.UUID, host.UUID)
	require.NoError(t, err)
	return id
}

func TestServices(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := newHost(t, b, "host-a", "nova")
	newHost(t, b, "host-b", "far")
	v1 := []string{"id", "binary", "host", "zone", "status", "state", "updated_at", "disabled_reason"}
	list := b.do(t, admin, "GET", "/os-services", "").ok(200)
	require.Len(t, list.get("services"), 2)
	require.ElementsMatch(t, v1, list.keys("services", 0))
	require.IsType(t, 1.0, list.get("services", 0, "id"))
	require.ElementsMatch(t, append(v1, "forced_down"), b.do(t, admin, "GET", "/os-services", "", at("2.11")).keys("services", 0))

	late := b.do(t, admin, "GET", "/os-services?host=host-a&binary=nova-compute", "", at("2.97")).ok(200)
	require.Len(t, late.get("services"), 1)
	require.Equal(t, a.String(), late.get("services", 0, "id"))
	require.Equal(t, "up", late.get("services", 0, "state"))
	require.Equal(t, "enabled", late.get("services", 0, "status"))
	require.Equal(t, "nova", late.get("services", 0, "zone"))
	require.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}$`, late.get("services", 0, "updated_at"))
	b.do(t, admin, "GET", "/os-services?binary=nova-conductor", "").is(200, `{"services":[]}`)
	b.do(t, admin, "GET", "/os-services?x=1", "", at("2.75")).fails(400, "badRequest", "Additional properties are not allowed ('x' was unexpected)")

	_, err := b.pool.Exec(t.Context(), "UPDATE hosts SET last_seen = $1", b.clock()) // by the API's clock, which stands still: they reported by the database's
	require.NoError(t, err)
	b.advance(compute.HostTimeout + time.Second)
	require.Equal(t, "down", b.do(t, admin, "GET", "/os-services", "").get("services", 0, "state"))
	b.do(t, member, "GET", "/os-services", "").fails(403, "forbidden", "Policy doesn't allow os_compute_api:os-services:list to be performed.")
}

func TestServiceSwitchedByName(t *testing.T) {
	t.Parallel()
	b := setup(t)
	newHost(t, b, "host-a", "nova")
	body := `{"host":"host-a","binary":"nova-compute"}`
	service := func(key string) any {
		return b.do(t, admin, "GET", "/os-services", "", at("2.11")).get("services", 0, key)
	}
	b.do(t, admin, "PUT", "/os-services/disable", body).is(200, `{"service":{"host":"host-a","binary":"nova-compute","status":"disabled"}}`)
	require.Equal(t, "disabled", service("status"))
	b.do(t, admin, "PUT", "/os-services/disable-log-reason", `{"host":"host-a","binary":"nova-compute","disabled_reason":"repair"}`).
		is(200, `{"service":{"host":"host-a","binary":"nova-compute","status":"disabled","disabled_reason":"repair"}}`)
	require.Equal(t, "repair", service("disabled_reason"))
	b.do(t, admin, "PUT", "/os-services/force-down", `{"host":"host-a","binary":"nova-compute","forced_down":"yes"}`, at("2.11")).
		is(200, `{"service":{"host":"host-a","binary":"nova-compute","forced_down":true}}`)
	require.Equal(t, "down", service("state"))
	require.Equal(t, "repair", service("disabled_reason"), "one switch leaves the other")
	b.do(t, admin, "PUT", "/os-services/force-down", `{"host":"host-a","binary":"nova-compute","forced_down":false}`, at("2.52")).ok(200)
	require.Equal(t, "up", service("state"))
	b.do(t, admin, "PUT", "/os-services/enable", body).is(200, `{"service":{"host":"host-a","binary":"nova-compute","status":"enabled"}}`)
	require.Equal(t, "enabled", service("status"))
	require.Nil(t, service("disabled_reason"))

	for _, c := range []struct {
		action, version, body string
		code                  int
		key, want             string
	}{
		{"fly", "2.1", body, 404, "itemNotFound", "Unknown action"},
		{"force-down", "2.10", body, 404, "itemNotFound", "Unknown action"},
		{"force-down", "2.11", body, 400, "badRequest", "Missing forced_down field"},
		{"disable-log-reason", "2.1", body, 400, "badRequest", "Missing disabled reason field"},
		{"enable", "2.1", `{"host":"x","binary":"nova-compute"}`, 404, "itemNotFound", "Could not find binary nova-compute on host x."},
		{"enable", "2.1", `{"host":"host-a","binary":"nova-api"}`, 404, "itemNotFound", "Could not find binary nova-api on host host-a."},
		{"enable", "2.1", `{"host":"host-a"}`, 400, "badRequest", "'binary' is a required property"},
		{"enable", "2.53", `{"status":"enabled"}`, 400, "badRequest", "Invalid uuid enable"},
	} {
		b.do(t, admin, "PUT", "/os-services/"+c.action, c.body, at(c.version)).fails(c.code, c.key, c.want)
	}
	b.do(t, member, "PUT", "/os-services/enable", body).fails(403, "forbidden", "Policy doesn't allow os_compute_api:os-services:update to be performed.")
}

func TestServiceUpdatedByID(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := newHost(t, b, "host-a", "nova").String()
	put := func(body string) answer { return b.do(t, admin, "PUT", "/os-services/"+id, body, at("2.53")) }
	a := put(`{"status":"disabled","disabled_reason":"repair","forced_down":true}`).ok(200)
	require.Equal(t, id, a.get("service", "id"))
	require.Equal(t, "disabled", a.get("service", "status"))
	require.Equal(t, "repair", a.get("service", "disabled_reason"))
	require.Equal(t, true, a.get("service", "forced_down"))
	require.Equal(t, "down", a.get("service", "state"))
	a = put(`{"forced_down":false}`).ok(200)
	require.Equal(t, "repair", a.get("service", "disabled_reason"))
	require.Equal(t, "up", a.get("service", "state"))
	a = put(`{"status":"enabled"}`).ok(200)
	require.Equal(t, "enabled", a.get("service", "status"))
	require.Nil(t, a.get("service", "disabled_reason"))

	put(`{}`).fails(400, "badRequest", "No updates were requested. Fields 'status' or 'forced_down' should be specified.")
	put(`{"disabled_reason":"x"}`).fails(400, "badRequest", "No updates were requested. Fields 'status' or 'forced_down' should be specified.")
	put(`{"status":"enabled","disabled_reason":"x"}`).fails(400, "badRequest", "Specifying 'disabled_reason' with status 'enabled' is invalid.")
	put(`{"status":"on"}`).fails(400, "badRequest", "Invalid input for field/attribute status. Value: on. 'on' is not one of ['enabled', 'disabled']")
	b.do(t, admin, "PUT", "/os-services/"+project, `{"forced_down":true}`, at("2.53")).fails(404, "itemNotFound", "Service "+project+" not found.")
}

// An operator's word that a host is down is what operations and the janitor go by: they
// leave what is on it to the ledger instead of waiting for an answer (A2).
func TestAForcedDownHostIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	b := setup(t)
	host := newHost(t, b, "host-a", "nova")
	down := func() bool {
		got, err := schema.New(b.pool).HostCondition(t.Context(), schema.HostConditionParams{ID: host, HostTimeout: compute.HostTimeout.Seconds()})
		require.NoError(t, err)
		return got.Down || got.Stale
	}
	for _, forced := range []bool{true, false} {
		b.do(t, admin, "PUT", "/os-services/force-down", fmt.Sprintf(`{"host":"host-a","binary":"nova-compute","forced_down":%t}`, forced), at("2.11")).ok(200)
		require.Equal(t, forced, down())
	}
	for _, forced := range []bool{true, false} {
		b.do(t, admin, "PUT", "/os-services/"+host.String(), fmt.Sprintf(`{"forced_down":%t}`, forced), at("2.53")).ok(200)
		require.Equal(t, forced, down())
	}
}

// H9: a host that is lost for good is deleted once nothing but what waits for it is there;
// the claims of deleted servers keep nobody. Whoever has the machine has no certificate any more (H1).
func TestH9ServiceDelete(t *testing.T) {
	t.Parallel()
	b := setup(t)
	host := newHost(t, b, "host-a", "nova")
	server := newServer(t, b, host, "one")
	path := "/os-services/" + host.String()
	remove := func() answer { return b.do(t, admin, "DELETE", path, "", at("2.53")) }
	q := schema.New(b.pool)
	certify := func(serial string, host compute.HostID, name string) {
		require.NoError(t, q.AddHostCertificate(t.Context(), schema.AddHostCertificateParams{
			Serial: serial, HostID: host, HostName: name, SealingKey: []byte("k"), NotAfter: time.Now().Add(time.Hour),
		}))
		require.NoError(t, q.AddEnrollment(t.Context(), schema.AddEnrollmentParams{TokenSha256: []byte(serial), HostName: name, Seconds: 3600}))
	}
	isGood := func(want bool, serial, why string) {
		t.Helper()
		var certificate, token bool
		require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM host_certificates WHERE serial = $1 AND revoked_at IS NULL),
			EXISTS (SELECT FROM host_enrollments WHERE token_sha256 = $2)`, serial, []byte(serial)).Scan(&certificate, &token))
		require.Equal(t, []bool{want, want}, []bool{certificate, token}, why)
	}
	certify("a", host, "host-a")
	const hosting = "Unable to delete compute service that is hosting instances. Migrate or delete the instances first."
	remove().fails(409, "conflictingRequest", hosting)
	_, err := b.pool.Exec(t.Context(), "UPDATE servers SET deleted_at = now() WHERE id = $1", server.UUID)
	require.NoError(t, err)
	b.do(t, member, "DELETE", path, "", at("2.53")).fails(403, "forbidden", "Policy doesn't allow os_compute_api:os-services:delete to be performed.")
	_, err = b.pool.Exec(t.Context(), `INSERT INTO ledger (id, kind, place, name, owner_kind, owner_id, operation_id, credential_id, project_id, user_id, state)
		VALUES ($1, 'disk_file', $2, 'f', 'server', $3, 'req-1', $1, 'p', 'u', 'present')`, uuid.New(), host.String(), server.UUID)
	require.NoError(t, err)
	remove().fails(409, "conflictingRequest", "Unable to delete compute service on whose host operations are at work. Wait until they have ended.")
	_, err = b.pool.Exec(t.Context(), `UPDATE ledger SET state = 'waiting', blocked_by = 'host', try_at = now()`)
	require.NoError(t, err)
	remove().fails(409, "conflictingRequest", "Unable to delete compute service on whose host 1 things are still to be removed. "+
		"Wait until they are, or stop its worker and force it down first.")
	b.do(t, admin, "PUT", path, `{"forced_down":true}`, at("2.53")).ok(200)
	isGood(true, "a", "it is on the list still")
	volume := compute.StateVolume(host)
	_, err = b.pool.Exec(t.Context(), `INSERT INTO secure_volumes (id, host_id, host_name, device, wanted) VALUES ($1, $2, 'host-a', '/dev/v', true)`, volume, host)
	require.NoError(t, err)
	_, err = b.pool.Exec(t.Context(), `INSERT INTO ledger (id, kind, place, name, owner_kind, owner_id, operation_id, credential_id, project_id, user_id, state)
		VALUES ($1, 'key_secret', 'key-manager', 'k', 'volume', $2, 'req-1', $1, '', '', 'present')`, uuid.New(), volume)
	require.NoError(t, err)
	remove().is(204, "")
	isGood(false, "a", "it does not come back with what it had")
	var state compute.ThingState
	require.NoError(t, b.pool.QueryRow(t.Context(), "SELECT state FROM ledger WHERE name = 'f'").Scan(&state))
	require.Equal(t, compute.ThingReleased, state, "nobody is there to remove it")
	require.NoError(t, b.pool.QueryRow(t.Context(), "SELECT state FROM ledger WHERE name = 'k'").Scan(&state))
	require.Equal(t, compute.ThingWaiting, state, "nobody reads its volume any more")
	var claims int
	require.NoError(t, b.pool.QueryRow(t.Context(), "SELECT count(*) FROM claims").Scan(&claims))
	require.Zero(t, claims)
	remove().fails(404, "itemNotFound", "Service "+host.String()+" not found.")
	b.do(t, admin, "DELETE", "/os-services/x", "", at("2.53")).fails(400, "badRequest", "Invalid uuid x")
	b.do(t, admin, "DELETE", "/os-services/1", "").fails(404, "itemNotFound", "Service 1 not found.")
	certify("b", newHost(t, b, "host-b", "nova"), "host-b")
	b.do(t, admin, "DELETE", "/os-services/2", "").is(204, "")
	isGood(true, "b", "its worker runs, and registers it anew")
}

func TestHypervisorKeysOfEachVersion(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := newHost(t, b, "host-a", "nova")
	newServer(t, b, id, "one")
	brief := []string{"id", "hypervisor_hostname", "state", "status"}
	late := append([]string{"host_ip", "hypervisor_type", "hypervisor_version", "service", "uptime"}, brief...)
	early := append([]string{"host_ip", "hypervisor_type", "hypervisor_version", "service", "cpu_info", "current_workload", "disk_available_least",
		"free_disk_gb", "free_ram_mb", "local_gb", "local_gb_used", "memory_mb", "memory_mb_used", "running_vms", "vcpus", "vcpus_used"}, brief...)
	for version, keys := range map[string][]string{"2.1": early, "2.28": early, "2.53": early, "2.87": early, "2.88": late, "2.97": late} {
		name := id.String()
		if version == "2.1" || version == "2.28" {
			name = "1"
		}
		require.ElementsMatch(t, brief, b.do(t, admin, "GET", "/os-hypervisors", "", at(version)).ok(200).keys("hypervisors", 0), version)
		require.ElementsMatch(t, keys, b.do(t, admin, "GET", "/os-hypervisors/detail", "", at(version)).ok(200).keys("hypervisors", 0), version)
		require.ElementsMatch(t, keys, b.do(t, admin, "GET", "/os-hypervisors/"+name, "", at(version)).ok(200).keys("hypervisor"), version)
	}
	b.do(t, admin, "GET", "/os-hypervisors/1", "").is(200, `{"hypervisor":{"id":1,"hypervisor_hostname":"host-a","state":"up","status":"enabled",
		"host_ip":"192.0.2.7","hypervisor_type":"QEMU","hypervisor_version":7002000,"service":{"id":1,"host":"host-a","disabled_reason":null},
		"cpu_info":"{\"arch\": \"x86_64\"}","current_workload":0,"disk_available_least":90,"free_disk_gb":90,"free_ram_mb":14848,"local_gb":100,
		"local_gb_used":10,"memory_mb":16384,"memory_mb_used":1536,"running_vms":1,"vcpus":8,"vcpus_used":2}}`)
	require.Equal(t, map[string]any{"arch": "x86_64"}, b.do(t, admin, "GET", "/os-hypervisors/1", "", at("2.28")).get("hypervisor", "cpu_info"))
	a := b.do(t, admin, "GET", "/os-hypervisors/"+id.String(), "", at("2.88"))
	require.Equal(t, "up 3 days", a.get("hypervisor", "uptime"))
	require.Equal(t, id.String(), a.get("hypervisor", "service", "id"))
	b.advance(time.Hour)
	require.Nil(t, b.do(t, admin, "GET", "/os-hypervisors/"+id.String(), "", at("2.88")).get("hypervisor", "uptime"))
}

func TestHypervisorSearch(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := newHost(t, b, "host-a", "nova")
	newHost(t, b, "host-b", "nova")
	one := newServer(t, b, id, "one")
	servers := []any{map[string]any{"name": "one", "uuid": one.String()}}
	get := func(path, version string) answer {
		return b.do(t, admin, "GET", "/os-hypervisors"+path, "", at(version))
	}

	require.Len(t, get("/host/search", "2.52").get("hypervisors"), 2)
	get("/x/search", "2.52").fails(404, "itemNotFound", "No hypervisor matching 'x' could be found.")
	get("/host/search", "2.53").fails(404, "itemNotFound", "API version 2.53 is not supported on this method.")
	require.Equal(t, servers, get("/host-a/servers", "2.52").get("hypervisors", 0, "servers"))
	require.NotContains(t, get("/host-b/servers", "2.52").keys("hypervisors", 0), "servers")
	get("/host-a/servers", "2.53").fails(404, "itemNotFound", "API version 2.53 is not supported on this method.")

	require.Len(t, get("?hypervisor_hostname_pattern=host-a", "2.53").get("hypervisors"), 1)
	require.Equal(t, servers, get("?with_servers=true", "2.53").get("hypervisors", 0, "servers"))
	require.NotContains(t, get("?with_servers=true", "2.74").keys("hypervisors", 1), "servers")
	require.Equal(t, []any{}, get("?with_servers=true", "2.75").get("hypervisors", 1, "servers"))
	require.Equal(t, servers, get("/"+id.String()+"?with_servers=1", "2.53").get("hypervisor", "servers"))
	get("?hypervisor_hostname_pattern=x", "2.53").fails(404, "itemNotFound", "No hypervisor matching 'x' could be found.")
	get("?hypervisor_hostname_pattern=x&limit=1", "2.53").fails(400, "badRequest",
		"Paging over hypervisors with the hypervisor_hostname_pattern query parameter is not supported.")
	get("?x=1", "2.53").fails(400, "badRequest", "Additional properties are not allowed ('x' was unexpected)")

	require.Len(t, get("?limit=1", "2.32").get("hypervisors"), 2)
	first := get("/detail?limit=1", "2.33")
	require.Len(t, first.get("hypervisors"), 1)
	require.Equal(t, "http://cloud.example:8774/v2.1/os-hypervisors/detail?limit=1&marker=1", first.get("hypervisors_links", 0, "href"))
	require.Equal(t, "host-b", get("?limit=1&marker="+id.String(), "2.53").get("hypervisors", 0, "hypervisor_hostname"))
	get("?marker=99", "2.33").fails(400, "badRequest", "marker [99] not found")

	get("/99", "2.1").fails(404, "itemNotFound", "Hypervisor with ID '99' could not be found.")
	get("/x", "2.53").fails(400, "badRequest", "Invalid uuid x")
	b.do(t, member, "GET", "/os-hypervisors", "").fails(403, "forbidden", "Policy doesn't allow os_compute_api:os-hypervisors:list to be performed.")
}

func TestHypervisorStatisticsAndUptime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := newHost(t, b, "host-a", "nova")
	newHost(t, b, "host-b", "nova")
	newServer(t, b, id, "one")
	get := func(path, version string) answer {
		return b.do(t, admin, "GET", "/os-hypervisors"+path, "", at(version))
	}
	get("/statistics", "2.87").is(200, `{"hypervisor_statistics":{"count":2,"current_workload":0,"disk_available_least":190,"free_disk_gb":190,
		"free_ram_mb":30720,"local_gb":200,"local_gb_used":10,"memory_mb":32768,"memory_mb_used":2048,"running_vms":1,"vcpus":16,"vcpus_used":2}}`)
	_, err := b.pool.Exec(t.Context(), `WITH c AS (UPDATE claims SET group_mb = 1028) UPDATE hosts SET group_mb = 51200 WHERE id = $1`, id)
	require.NoError(t, err)
	get("/statistics", "2.87").is(200, `{"hypervisor_statistics":{"count":2,"current_workload":0,"disk_available_least":238,"free_disk_gb":238,
		"free_ram_mb":30720,"local_gb":250,"local_gb_used":12,"memory_mb":32768,"memory_mb_used":2048,"running_vms":1,"vcpus":16,"vcpus_used":2}}`)
	get("/statistics", "2.88").fails(404, "itemNotFound", "API version 2.88 is not supported on this method.")
	get("/1/uptime", "2.1").is(200, `{"hypervisor":{"id":1,"hypervisor_hostname":"host-a","state":"up","status":"enabled","uptime":"up 3 days"}}`)
	get("/"+id.String()+"/uptime", "2.88").fails(404, "itemNotFound", "API version 2.88 is not supported on this method.")
	b.advance(time.Hour)
	get("/1/uptime", "2.1").fails(400, "badRequest", "Compute service of host-a is unavailable at this time.")
}

func TestAvailabilityZones(t *testing.T) {
	t.Parallel()
	b := setup(t)
	newHost(t, b, "host-a", "nova")
	newHost(t, b, "host-b", "aside")
	b.do(t, admin, "PUT", "/os-services/disable", `{"host":"host-b","binary":"nova-compute"}`).ok(200)
	b.do(t, reader, "GET", "/os-availability-zone", "").is(200, `{"availabilityZoneInfo":[
		{"zoneName":"nova","zoneState":{"available":true},"hosts":null},{"zoneName":"aside","zoneState":{"available":false},"hosts":null}]}`)
	b.do(t, reader, "GET", "/os-availability-zone/detail", "").
		fails(403, "forbidden", "Policy doesn't allow os_compute_api:os-availability-zone:detail to be performed.")
	a := b.do(t, admin, "GET", "/os-availability-zone/detail", "").ok(200)
	require.ElementsMatch(t, []string{"available", "active", "updated_at"}, a.keys("availabilityZoneInfo", 0, "hosts", "host-a", "nova-compute"))
	require.Nil(t, a.get("availabilityZoneInfo", 1, "hosts"))
}
