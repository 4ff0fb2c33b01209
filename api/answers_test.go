package api_test

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

// P4: an IPv6 address has its short form in every answer, however it was written.
func TestP4AddressesHaveTheirShortForm(t *testing.T) {
	t.Parallel()
	c := setupRebuild(t)
	const long, short = "0000:0000:0000:0000:0000:babe:220.12.22.2", "::babe:dc0c:1602"
	id := c.create(map[string]any{"accessIPv6": long})
	c.settle(id, "active", "")
	show := func() any { return c.do(t, member, "GET", "/servers/"+id, "").ok(200).get("server", "accessIPv6") }
	require.Equal(t, short, show())
	body := `{"server":{"accessIPv6":"2001:0DB8::0001"}}`
	require.Equal(t, "2001:db8::1", c.do(t, member, "PUT", "/servers/"+id, body).ok(200).get("server", "accessIPv6"))
	require.Equal(t, "2001:db8::1", show())
	rebuilt := c.rebuild(t, member, id, c.image, `, "accessIPv6": "`+long+`"`, "2.97").ok(202)
	require.Equal(t, short, rebuilt.get("server", "accessIPv6"))
	require.Contains(t, c.text(`SELECT arguments::text FROM operations WHERE kind = 'rebuild'`), short)
	require.Equal(t, 1, c.count(`SELECT count(*) FROM servers WHERE access_ip_v4 = ''`), "none is none")
}

// P5: the answer of a rebuild has the user data once, as user_data.
func TestP5RebuildShowsUserDataOnce(t *testing.T) {
	t.Parallel()
	c := setupRebuild(t)
	id := c.active()
	for _, version := range []string{"2.57", "2.74", "2.75", "2.97"} {
		c.settle(id, "active", "")
		keys := c.rebuild(t, admin, id, c.image, `, "user_data": "eA=="`, version).ok(202).keys("server")
		require.Contains(t, keys, "user_data", version)
		require.NotContains(t, keys, "OS-EXT-SRV-ATTR:user_data", version)
		require.Contains(t, c.do(t, admin, "GET", "/servers/"+id, "", at(version)).ok(200).keys("server"), "OS-EXT-SRV-ATTR:user_data")
	}
}

// P6: to name a project is not to ask for those of all projects.
func TestP6AProjectAloneIsNotAllProjects(t *testing.T) {
	t.Parallel()
	c, _ := setupList(t)
	const own = "delta gamma beta alpha"
	for query, want := range map[string]string{
		"tenant_id=" + elsewhere: own, "project_id=" + elsewhere: own, "tenant_id=" + elsewhere + "&all_tenants=0": own,
		"tenant_id=" + elsewhere + "&all_tenants=1": "foreign", "project_id=" + elsewhere + "&all_tenants": "foreign",
	} {
		for _, path := range []string{"/servers?", "/servers/detail?"} {
			require.Equal(t, want, names(c.do(t, admin, "GET", path+query, "", at("2.97"))), query)
		}
	}
	require.Equal(t, own, names(c.do(t, member, "GET", "/servers?tenant_id="+elsewhere, "")), "members may name what they like")
}

// P8: the versions at the root are the compute API's, and each link leads to one version.
// Those of the volume API are where its clients look for them.
func TestP8EachVersionHasItsDocument(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids := []string{}
	for _, version := range b.raw(t, nobody, "GET", "/", "").ok(200).get("versions").([]any) {
		id := version.(map[string]any)["id"].(string)
		ids = append(ids, id)
		link, err := url.Parse(version.(map[string]any)["links"].([]any)[0].(map[string]any)["href"].(string))
		require.NoError(t, err)
		require.Equal(t, id, b.raw(t, nobody, "GET", link.Path, "").ok(200).get("version", "id"))
	}
	require.Equal(t, []string{"v2.0", "v2.1"}, ids)
	require.Equal(t, "v3.0", b.raw(t, nobody, "GET", "/volume/", "").ok(300).get("versions", 0, "id"))
	b.raw(t, member, "GET", "/volume/v3/types", "").ok(200)
}

// P10: what an answer shows as the time of a change finds the server, by both filters.
func TestP10ChangesAreComparedAsTheyAreShown(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.active()
	c.exec(`UPDATE servers SET updated_at = '2026-11-20 12:00:00.7+00' WHERE id = $1`, id)
	shown := c.do(t, member, "GET", "/servers/"+id, "", at("2.97")).ok(200).get("server", "updated").(string)
	require.Equal(t, "2026-11-20T12:00:00Z", shown)
	for query, found := range map[string]bool{
		"changes-before=" + shown:                             true,
		"changes-before=2026-11-20T12:00:00.3Z":               true,
		"changes-before=2026-11-20T11:59:59.999Z":             false,
		"changes-since=" + shown:                              true,
		"changes-since=2026-11-20T12:00:00.3Z":                false,
		"changes-since=2026-11-20T11:59:59.999Z":              true,
		"changes-since=" + shown + "&changes-before=" + shown: true,
	} {
		want := ""
		if found {
			want = "one"
		}
		require.Equal(t, want, names(c.do(t, member, "GET", "/servers?"+query, "", at("2.97"))), query)
	}
}

// P11: a list can be sorted by what is the same of all servers, from any marker on.
func TestP11SortByWhatIsTheSameOfAll(t *testing.T) {
	t.Parallel()
	c, ids := setupList(t)
	for _, key := range []string{"kernel_id", "ramdisk_id", "root_device_name"} { // all have /dev/vda
		for direction, want := range map[string][2]string{
			"asc": {"alpha beta gamma delta", "gamma delta"}, "desc": {"delta gamma beta alpha", "alpha"},
		} {
			query := "/servers?" + url.Values{"sort_key": {key}, "sort_dir": {direction}}.Encode()
			require.Equal(t, want[0], names(c.do(t, member, "GET", query, "")), query)
			require.Equal(t, want[1], names(c.do(t, member, "GET", query+"&marker="+ids["beta"], "")), query)
		}
	}
	all := "/servers?sort_key=root_device_name&sort_key=kernel_id&sort_key=display_name&sort_dir=desc&sort_dir=desc&sort_dir=asc"
	require.Equal(t, "alpha beta delta gamma", names(c.do(t, member, "GET", all, "")))

	// K1, K6: of one it is another.
	c.exec(`UPDATE servers SET image = jsonb_set(image || '{"devices": true}', '{properties}', '{"hw_disk_bus": "scsi"}') WHERE name = 'gamma'`)
	require.Equal(t, "gamma alpha beta delta", names(c.do(t, member, "GET", "/servers?sort_key=root_device_name&sort_dir=asc", "")))
	require.Equal(t, "delta", names(c.do(t, member, "GET", "/servers?sort_key=root_device_name&sort_dir=asc&marker="+ids["beta"], "")))
}

// P20: a project that Keystone does not know has no quotas. Others learn nothing of projects
// that are not theirs.
func TestP20QuotasOfAnUnknownProject(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, of := range []string{"", "/detail", "/defaults"} {
		for _, id := range []string{"00000000000000000000000000000000", "nobodys", "..", "a%2Fb", "%20", "a%3Fb"} {
			b.do(t, admin, "GET", "/os-quota-sets/"+id+of, "").ok(400)
		}
		b.do(t, admin, "GET", "/os-quota-sets/none"+of, "").fails(400, "badRequest", "Project ID none is not a valid project.")
		b.do(t, admin, "GET", "/os-quota-sets/"+elsewhere+of, "").ok(200)
		b.do(t, member, "GET", "/os-quota-sets/"+project+of, "").ok(200)
	}
	b.do(t, member, "GET", "/os-quota-sets/none", "").ok(403)
	b.do(t, member, "GET", "/os-quota-sets/none/defaults", "").ok(200)
	b.do(t, admin, "GET", "/os-quota-sets/"+elsewhere, "").ok(200)
	b.identity.set(true)
	b.do(t, admin, "GET", "/os-quota-sets/none", "").ok(200) // Keystone does not say
}
