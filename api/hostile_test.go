package api_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

// H3, P13, P14: numbers of any length are compared with their bounds, and no sum of sizes
// overflows.
func TestH3NumbersOfAnyLengthAreBounded(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	c.addFlavor("scratch", map[string]string{})
	zeros := strings.Repeat("0", 65)
	blank := func(size any) map[string]any {
		return map[string]any{"source_type": "blank", "destination_type": "local", "boot_index": -1, "volume_size": size}
	}
	overflow := strings.Repeat("0", 60) + "4611686018427487904" // twice this and a little wraps around to a small sum
	for name, more := range map[string]map[string]any{
		"min_count of zeros":           {"min_count": zeros},
		"negative min_count":           {"min_count": "-" + zeros + "1"},
		"min_count beyond every bound": {"min_count": strings.Repeat("9", 300)},
		"max_count of zeros":           {"max_count": zeros},
		"a very small number":          {"min_count": "1e-999999999"},
		"sizes whose sum overflows":    {"block_device_mapping_v2": []any{blank(overflow), blank(overflow)}},
		"sizes that overflow as MiB":   {"block_device_mapping_v2": []any{blank(int64(1) << 54)}},
		"a size of a thousand digits":  {"block_device_mapping_v2": []any{blank(strings.Repeat("7", 1000))}},
		"too many disks":               {"block_device_mapping_v2": []any{blank(1), blank(1), blank(1), blank(1), blank(1), blank(1), blank(1), blank(1), blank(1), blank(1), blank(1)}},
	} {
		t.Run(name, func(t *testing.T) {
			c.do(t, member, "POST", "/servers", c.body(more), at("2.90")).ok(400)
		})
	}
	body := strings.Replace(c.body(map[string]any{"min_count": 4711}), "4711", "1e-999999999", 1)
	require.Contains(t, body, "e-999999999")
	c.do(t, member, "POST", "/servers", body, at("2.90")).ok(400)
	require.Zero(t, c.count(`SELECT count(*) FROM servers`))
	c.do(t, member, "POST", "/servers", c.body(map[string]any{"min_count": zeros + "1"}), at("2.90")).ok(202)
}

// H3: a number that is nearly nothing, or has that many digits when it is written out, is
// refused before it is compared with anything; whoever sends it.
func TestH3SmallNumbersAreNotWrittenOut(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	for _, number := range []string{"1e-999999999", "1e-999999", "1E-401", "-1e-99999999999999999999", "0e999999999"} {
		flavor := `{"flavor":{"name":"f","ram":64,"vcpus":1,"disk":1,"rxtx_factor":` + number + `}}`
		c.do(t, stranger, "POST", "/flavors", flavor).fails(400, "badRequest", "Malformed request body")
		many := strings.Repeat(`{"volume_size":`+number+`},`, 1000) + "{}"
		c.do(t, member, "POST", "/servers", `{"server":{"block_device_mapping_v2":[`+many+`]}}`).fails(400, "badRequest", "Malformed request body")
	}
	c.do(t, admin, "POST", "/flavors", `{"flavor":{"name":"f","ram":64,"vcpus":1,"disk":1,"rxtx_factor":2.5e-3}}`).ok(200)
}

// H4, P12: a key that is named again does not make the statement longer.
func TestH4SortKeysCountOnce(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	marker := c.create(nil)
	c.create(nil)
	keys := url.Values{"marker": {marker}}
	for range 1000 {
		keys["sort_key"] = append(keys["sort_key"], "display_name", "uuid")
		keys["sort_dir"] = append(keys["sort_dir"], "asc", "desc")
	}
	once := "?marker=" + marker + "&sort_key=display_name&sort_dir=asc&sort_key=uuid&sort_dir=desc"
	want := fmt.Sprint(c.do(t, member, "GET", "/servers"+once, "").ok(200).get("servers"))
	require.Equal(t, want, fmt.Sprint(c.do(t, member, "GET", "/servers?"+keys.Encode(), "").ok(200).get("servers")))
}

// H4: quotas do not bound deleted servers, which keep their metadata. A page ends where it would cost too
// much and links the next one, and a list without details reads no metadata.
func TestH4APageIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.create(nil)
	c.settle(id, compute.VMDeleted, "")
	c.exec(`UPDATE servers SET deleted_at = now(), metadata = (SELECT jsonb_object_agg(repeat('k', 252) || to_char(i, 'FM000'), repeat('v', 255)) FROM generate_series(1, 128) i)`)
	const all = 100 // of 64 KiB each: more than a page holds
	c.exec(`INSERT INTO servers (id, project_id, user_id, name, hostname, reservation_id, vm_state, flavor, image, metadata, updated_at, deleted_at)
		SELECT gen_random_uuid(), project_id, user_id, name, hostname, reservation_id, vm_state, flavor, image, metadata, updated_at, deleted_at
		FROM servers, generate_series(2, $1::int)`, all)
	for query, most := range map[string]int{"": all, "&limit=90": 90, "&limit=10": 10} {
		seen := map[string]bool{}
		for next := "/servers/detail?changes-since=2000-01-01T00:00:00Z" + query; next != ""; {
			a := c.do(t, member, "GET", next, "").ok(200)
			require.Less(t, len(a.body), 5<<20, query)
			servers := a.get("servers").([]any)
			require.LessOrEqual(t, len(servers), most, query)
			for i := range servers {
				require.Len(t, a.get("servers", i, "metadata"), 128)
				id := a.get("servers", i, "id").(string)
				require.False(t, seen[id], "a server on two pages")
				seen[id] = true
			}
			next = ""
			if slices.Contains(a.keys(), "servers_links") {
				u, err := url.Parse(a.get("servers_links", 0, "href").(string))
				require.NoError(t, err)
				next = strings.TrimPrefix(u.RequestURI(), "/v2.1")
			}
		}
		require.Len(t, seen, all, query)
	}
	c.exec(`UPDATE servers SET metadata = '[]'`) // which whoever reads it meets
	c.do(t, member, "GET", "/servers/detail?changes-since=2000-01-01T00:00:00Z", "").ok(500)
	require.Len(t, c.do(t, member, "GET", "/servers?changes-since=2000-01-01T00:00:00Z", "").ok(200).get("servers"), all)
}

// M9: what decides whether a token is needed reads the path as the router does.
func TestM9EveryPathBelowTheEndpointsNeedsAToken(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, path := range []string{
		"/v2.1/%2F", "/v2.1/%2f%2f", "/v2.1/servers/%2F", "/v2/%2F", "/v3/%2F", "/v3/%2f%2F/", "/v3/types/%2F", "/v3/%2e%2e/types",
		"/volume/types", "/volume/%2F", "/volume/v3/%2F", "/volume/v3/types", "/volume/v3%2F", "/volume/%2e%2e/v2.1",
	} {
		b.raw(t, nobody, "GET", path, "").ok(401)
	}
	for _, path := range []string{"/v2.1%2Fservers", "/v3%2Ftypes", "/%76%33/types", "/volume%2Fv3/types", "/volumes", "/%76olume/v3"} { // none of an endpoint's
		b.raw(t, nobody, "GET", path, "").ok(300)
	}
	b.raw(t, member, "GET", "/v2.1/%2F", "").ok(404)
}

// P12: a marker with a thousand sort keys is the work of one: PostgreSQL is asked the same. Of volume types: api/volume.
func TestP12AMarkerWithAThousandSortKeys(t *testing.T) {
	t.Parallel()
	noted := &searches{}
	c := setupCloud(t, noted.note(t))
	marker := c.create(nil)
	c.create(nil)
	asked := func(more string) (answer, string, []any) {
		got := c.do(t, member, "GET", "/servers?marker="+marker+"&sort_key=display_name&sort_dir=asc"+more, "").ok(200)
		return got, noted.text, noted.args
	}
	one, text, args := asked("")
	many, same, with := asked(strings.Repeat("&sort_key=display_name&sort_dir=asc&sort_key=display_name&sort_dir=desc", 500))
	require.Equal(t, one.get("servers"), many.get("servers"))
	require.NotEmpty(t, text)
	require.Equal(t, text, same)
	require.Equal(t, args, with)
}

// P13: a count of zeros alone is a request that is refused, and no panic.
func TestP13ACountOfZeros(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	for _, key := range []string{"min_count", "max_count"} {
		c.do(t, member, "POST", "/servers", c.body(map[string]any{key: strings.Repeat("0", 65)}), at("2.90")).ok(400)
	}
	require.Zero(t, c.count(`SELECT count(*) FROM servers`))
}

// P14: sizes whose sum wraps around to a small one are refused at once, not by the host.
func TestP14SizesWhoseSumWraps(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	c.addFlavor("scratch", map[string]string{})
	disk := map[string]any{
		"source_type": "blank", "destination_type": "local", "boot_index": -1, "volume_size": strings.Repeat("0", 60) + "4611686018427387904",
	}
	disks := []any{disk, disk, disk, disk} // 2^62 each
	c.do(t, member, "POST", "/servers", c.body(map[string]any{"block_device_mapping_v2": disks}), at("2.90")).ok(400)
	require.Zero(t, c.count(`SELECT count(*) FROM servers`))
}

// P15: an escaped slash below the volume API needs a token as any path does.
func TestP15AnEscapedSlashBelowTheVolumeAPI(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.raw(t, nobody, "GET", "/v3/%2F", "").ok(401)
	b.raw(t, member, "GET", "/v3/%2F", "").ok(404)
}

// TestLowTheLogNamesTheConnectedClient: the log names who is connected, not who a header says
func TestLowTheLogNamesTheConnectedClient(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.raw(t, nobody, "GET", "/v2.1/servers", "", header("X-Forwarded-For", "203.0.113.9"), header("X-Real-Ip", "203.0.113.9")).ok(401)
	b.raw(t, nobody, "GET", "/v3/types", "", header("X-Forwarded-For", "203.0.113.9"), header("X-Real-Ip", "203.0.113.9")).ok(401)
	require.Contains(t, b.log.String(), `"client":`)
	require.NotContains(t, b.log.String(), "203.0.113.9")
}
