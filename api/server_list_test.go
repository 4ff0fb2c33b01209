package api_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

// names gives the names of a list's servers, in order.
func names(a answer) string {
	a.t.Helper()
	a.ok(200)
	var out []string
	for i := range a.get("servers").([]any) {
		out = append(out, a.get("servers", i, "name").(string))
	}
	return strings.Join(out, " ")
}

func setupList(t *testing.T) (*cloud, map[string]string) {
	t.Helper()
	c := setupCloud(t)
	c.addFlavor("7", nil)
	ids := map[string]string{}
	for i, s := range []struct {
		name string
		as   who
		more map[string]any
		vm   compute.VMState
		task compute.TaskState
	}{
		{"alpha", member, map[string]any{"tags": []string{"red", "blue"}}, compute.VMActive, ""},
		{"beta", member, map[string]any{"tags": []string{"red"}, "flavorRef": "7"}, compute.VMStopped, ""},
		{"gamma", member, map[string]any{"config_drive": true}, compute.VMActive, compute.TaskRebootStarted},
		{"delta", member, nil, compute.VMError, ""},
		{"gone", member, nil, compute.VMDeleted, ""},
		{"foreign", stranger, nil, compute.VMActive, ""},
	} {
		more := map[string]any{"name": s.name}
		for key, value := range s.more {
			more[key] = value
		}
		id := c.createAs(s.as, more)
		ids[s.name] = id
		c.settle(id, s.vm, s.task)
		c.exec(`UPDATE servers SET created_at = $2::timestamptz + $3 * interval '1 minute', updated_at = $2::timestamptz + $3 * interval '1 hour' WHERE id = $1`,
			id, "2026-11-20T12:00:00Z", i)
		if s.vm == compute.VMDeleted {
			c.exec(`UPDATE servers SET deleted_at = now() WHERE id = $1`, id)
		}
	}
	c.exec(`UPDATE hosts SET address = '198.51.100.9'`)
	c.exec(`UPDATE servers SET networks = $2 WHERE id = $1`, ids["alpha"], `[{"uuid": "n"}, {"uuid": "n", "port": {"addresses": [{"ip_address": "192.0.2.1"}]}},
		{"uuid": "n", "port": {"id": "00000000-0000-0000-0000-000000000001", "addresses": [{"subnet_id": "00000000-0000-0000-0000-000000000002", "ip_address": "10.1.0.7",
		"floating_ips": ["203.0.113.5"]}, {"subnet_id": "00000000-0000-0000-0000-000000000003", "ip_address": "fd00::7"}]}}]`)
	return c, ids
}

func TestK1ListFilters(t *testing.T) {
	t.Parallel()
	c, ids := setupList(t)
	for _, name := range []string{"metadata", "system_metadata", "block_device_mapping", "services", "info_cache", "security_groups", "pci_devices", "_id"} {
		c.do(t, admin, "GET", "/servers?"+name+"=x", "").fails(400, "badRequest", "Invalid filter field: "+name+".")
		c.do(t, member, "GET", "/servers?"+name+"=x", "").ok(200) // what is not his to filter by is dropped
	}
	for _, test := range []struct {
		as      who
		query   string
		version string
		want    string
	}{
		{member, "", "2.1", "delta gamma beta alpha"},
		{stranger, "", "2.1", "foreign"},
		{admin, "all_tenants=1", "2.1", "foreign delta gamma beta alpha"},
		{admin, "all_tenants", "2.1", "foreign delta gamma beta alpha"},
		{admin, "all_tenants=False", "2.1", "delta gamma beta alpha"},
		{admin, "all_tenants=1&project_id=" + elsewhere, "2.1", "foreign"},
		{admin, "all_tenants=1&tenant_id=" + elsewhere, "2.1", "foreign"},
		{admin, "deleted=true", "2.1", "gone"},
		{admin, "status=deleted", "2.1", "gone"},
		{admin, "host=node-1", "2.90", "delta gamma beta alpha"},
		{admin, "host=node-2", "2.90", ""},
		{admin, "uuid=" + ids["beta"], "2.1", "beta"},
		{member, "uuid=" + ids["beta"], "2.1", "delta gamma beta alpha"}, // not his to filter by: dropped
		{member, "name=^.a", "2.1", "gamma"},
		{member, "name=eta", "2.1", "beta"},
		{member, "status=ACTIVE", "2.1", "alpha"},
		{member, "status=active&status=shutoff", "2.1", "beta alpha"},
		{member, "status=REBOOT", "2.1", "gamma"},
		{member, "status=nonsense", "2.37", ""},
		{member, "flavor=7", "2.1", "beta"},
		{member, "image=" + c.image, "2.1", "delta gamma beta alpha"},
		{member, "image=" + uuid.NewString(), "2.1", ""},
		{member, "ip=10.", "2.1", "alpha"}, // K1
		{member, `ip=10\.1\.0\.7$`, "2.1", "alpha"},
		{member, "ip=0.1.0.7", "2.1", ""},
		{member, "ip=203.0.113", "2.90", "alpha"},
		{member, "ip=fd00", "2.1", ""},
		{member, "ip6=fd00", "2.5", "alpha"},
		{member, "ip6=10.1", "2.5", ""},
		{member, "ip=192.0.2.1", "2.1", ""}, // of a port that is not there yet
		{stranger, "ip=10.", "2.1", ""},
		{member, "ip=198", "2.1", ""}, // its host's
		{member, "ip=(203|192).(0)", "2.1", "alpha"},
		{member, "ip=.*7$", "2.1", "alpha"},
		{member, "tags=red,blue", "2.26", "alpha"},
		{member, "tags-any=red,blue", "2.26", "beta alpha"},
		{member, "not-tags=red,blue", "2.26", "delta gamma beta"},
		{member, "not-tags-any=red,blue", "2.26", "delta gamma"},
		{member, "config_drive=true", "2.83", "gamma"},
		{member, "config_drive=true", "2.82", "delta gamma beta alpha"},
		{member, "vm_state=stopped", "2.83", "beta"},
		{member, "hostname=gamma", "2.90", "gamma"},
		{member, "locked=true", "2.73", ""},
		{member, "availability_zone=nova&power_state=1&user_id=user-member&created_at=T12:01", "2.83", "beta"},
		{member, "changes-since=2026-11-20T15:00:00Z", "2.1", "gone delta"},
		{member, "changes-since=2026-11-20T13:00:00Z&changes-before=2026-11-20T14:00:00Z", "2.66", "gamma beta"},
		{member, "nonsense=1", "2.74", "delta gamma beta alpha"},
		{member, "sort_key=display_name&sort_dir=asc", "2.1", "alpha beta delta gamma"},
		{member, "sort_key=vm_state&sort_key=display_name&sort_dir=desc&sort_dir=asc", "2.1", "beta delta alpha gamma"},
		{member, "sort_key=memory_mb&sort_dir=asc", "2.74", "delta gamma beta alpha"}, // never meant anything
		{member, "limit=0", "2.1", ""},
	} {
		t.Run(fmt.Sprint(test.as, " ", test.query, " ", test.version), func(t *testing.T) {
			for _, path := range []string{"/servers?", "/servers/detail?"} {
				require.Equal(t, test.want, names(c.do(t, test.as, "GET", path+test.query, "", at(test.version))))
			}
		})
	}
}

func TestListRefuses(t *testing.T) {
	t.Parallel()
	c, ids := setupList(t)
	for _, bad := range []struct {
		query, version string
		code           int
		fault, message string
	}{
		{"all_tenants=1", "2.1", 403, "forbidden", "Policy doesn't allow os_compute_api:servers:index:get_all_tenants to be performed."},
		{"all_tenants=maybe", "2.1", 400, "badRequest", "Unrecognized value 'maybe', acceptable values are: " +
			"'0', '1', 'f', 'false', 'n', 'no', 'off', 'on', 't', 'true', 'y', 'yes'"},
		{"status=deleted", "2.1", 403, "forbidden", "Only administrators may list deleted instances"},
		{"status=nonsense", "2.38", 400, "badRequest", "Invalid status value"},
		{"marker=nonsense", "2.1", 400, "badRequest", "marker [nonsense] not found"},
		{"marker=" + ids["foreign"], "2.1", 400, "badRequest", "marker [" + ids["foreign"] + "] not found"},
		{"limit=-1", "2.1", 400, "badRequest", "Invalid input for query parameters limit. Value: -1. '-1' does not match '^[0-9]*$'"},
		{"limit=x", "2.1", 400, "badRequest", "Invalid input for query parameters limit. Value: x. 'x' does not match '^[0-9]*$'"},
		{"sort_key=display_name&sort_dir=up", "2.1", 400, "badRequest", "Unknown sort direction, must be one of: asc, desc"},
		{"sort_dir=asc&sort_dir=asc", "2.1", 400, "badRequest", "Sort direction size exceeds sort key size"},
		{"changes-since=yesterday", "2.1", 400, "badRequest",
			"Invalid input for query parameters changes-since. Value: yesterday. 'yesterday' is not a 'date-time'"},
		{"changes-since=2026-11-21&changes-before=2026-11-20", "2.66", 400, "badRequest",
			"The value of changes-since must be less than or equal to changes-before."},
		{"nonsense=1", "2.75", 400, "badRequest", "Additional properties are not allowed ('nonsense' was unexpected)"},
		{"name=(", "2.1", 400, "badRequest", "Invalid input for query parameters name. Value: (. '(' is not a 'regex'"},
		{"name=" + url.QueryEscape(`\pL`), "2.1", 400, "badRequest", "The request holds an invalid regular expression."},
	} {
		t.Run(bad.query, func(t *testing.T) {
			c.do(t, member, "GET", "/servers?"+bad.query, "", at(bad.version)).fails(bad.code, bad.fault, bad.message)
		})
	}
	c.do(t, member, "GET", "/servers?sort_key=nonsense", "").ok(400)
	c.do(t, member, "GET", "/servers?sort_key=memory_mb", "", at("2.75")).ok(400)
}

// TestPages walks through all servers page by page, also where many rows have
// the same sort value and servers come and go meanwhile.
func TestPages(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	all := map[string]bool{}
	for i := range 3 {
		a := c.do(t, member, "POST", "/servers", c.body(map[string]any{"name": fmt.Sprint("s", i), "min_count": 4, "return_reservation_id": true}), at("2.90"))
		a.ok(202)
	}
	for _, op := range c.starter.ops() {
		all[op.ServerID.String()] = true
	}
	for _, sorting := range []string{"", "&sort_key=vm_state", "&sort_key=vm_state&sort_key=launched_at&sort_key=host&sort_dir=asc&sort_dir=desc&sort_dir=asc"} {
		seen := map[string]bool{}
		next := "/servers?limit=5" + sorting
		pages := 0
		for next != "" {
			a := c.do(t, member, "GET", next, "").ok(200)
			list := a.get("servers").([]any)
			for i := range list {
				id := a.get("servers", i, "id").(string)
				require.False(t, seen[id], "a server on two pages")
				seen[id] = true
			}
			next = ""
			if len(list) == 5 {
				u, err := url.Parse(a.get("servers_links", 0, "href").(string))
				require.NoError(t, err)
				require.Equal(t, "next", a.get("servers_links", 0, "rel"))
				next = strings.TrimPrefix(u.RequestURI(), "/v2.1")
			} else {
				require.NotContains(t, a.keys(), "servers_links")
			}
			pages++
		}
		require.Equal(t, 3, pages)
		require.Equal(t, all, seen)
	}
}

// S11: a status that is asked for again and again makes the statement no larger.
func TestS11AStatusCountsOnce(t *testing.T) {
	t.Parallel()
	noted := &searches{}
	c := setupCloud(t, noted.note(t))
	c.create(nil)
	size := func(query string) (int, int) {
		c.do(t, member, "GET", "/servers?"+query, "").ok(200)
		return len(noted.text), len(noted.args)
	}
	text, args := size("status=REBUILD&status=ACTIVE")
	many, arguments := size(strings.Repeat("status=REBUILD&status=active&status=Rebuild&", 3_000) + "status=ACTIVE")
	require.Equal(t, text, many)
	require.Equal(t, args, arguments)
}

// TestListIsFewQueries: details of many servers do not cost a query each.
func TestListIsFewQueries(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	for range 5 {
		c.do(t, member, "POST", "/servers", c.body(map[string]any{"min_count": 100, "return_reservation_id": true}), at("2.90")).ok(202)
	}
	before := c.pool.Stat().AcquireCount()
	a := c.do(t, member, "GET", "/servers/detail", "").ok(200)
	require.Len(t, a.get("servers"), 500)
	require.Less(t, c.pool.Stat().AcquireCount()-before, int64(20), "queries")
}
