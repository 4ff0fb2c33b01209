package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

// S1: of a key that a body gives twice the last one counts, for the schema and for what is done, at every level.
func TestS1AKeyGivenTwiceIsReadOnce(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	c.addFlavor("scratch", map[string]string{}) // with 2 GiB beside the root disk
	const blank = `{"source_type":"blank","destination_type":"local","boot_index":-1,"volume_size":%s}`
	devices := func(sizes ...string) string {
		all := make([]string, len(sizes))
		for i, size := range sizes {
			all[i] = fmt.Sprintf(blank, size)
		}
		return `"block_device_mapping_v2":[{"uuid":"` + c.image + `","source_type":"image","destination_type":"local","boot_index":0},` + strings.Join(all, ",") + `]`
	}
	good := c.body(map[string]any{"flavorRef": "scratch", "hostname": "good", "description": "good", "tags": []string{"good"}, "metadata": map[string]any{"a": "good"}})
	server := strings.TrimSuffix(strings.TrimPrefix(good, `{"server":`), "}")
	whole := func(first string) string { return `{"server":` + first + `,"server":` + server + `}` }
	within := func(first string) string { return `{"server":{` + first + "," + server[1:] + `}` }
	for name, body := range map[string]string{
		"a count":                    whole(`{"min_count":3,"max_count":3}`),
		"a negative count":           whole(`{"min_count":-5}`),
		"a size":                     whole(`{` + devices("-18014398509481983", "102400") + `}`),
		"texts without bounds":       whole(`{"hostname":"-bad_host!","description":"` + strings.Repeat("x", 5000) + `","user_data":"%%","key_name":"no such"}`),
		"another type":               whole(`[]`),
		"a name":                     within(`"name":"` + strings.Repeat("x", 5000) + `"`),
		"tags":                       within(`"tags":["a,b","` + strings.Repeat("x", 5000) + `"]`),
		"metadata":                   within(`"metadata":{"` + strings.Repeat("k", 5000) + `":"v"}`),
		"a key of the metadata":      strings.Replace(good, `"a":"good"`, `"a":"`+strings.Repeat("v", 5000)+`","a":"good"`, 1),
		"written with other letters": within(`"n\u0061me":"` + strings.Repeat("x", 5000) + `"`),
	} {
		t.Run(name, func(t *testing.T) {
			before := c.count(`SELECT count(*) FROM servers`)
			id := c.do(t, member, "POST", "/servers", body, at("2.94")).ok(202).get("server", "id")
			require.Equal(t, before+1, c.count(`SELECT count(*) FROM servers`))
			require.Equal(t, 1, c.count(`SELECT count(*) FROM servers WHERE id = $1 AND name = 'one' AND hostname = 'good' AND description = 'good' AND metadata = '{"a": "good"}'
				AND user_data IS NULL AND key_name IS NULL`, id))
			require.Equal(t, []any{"good"}, c.do(t, member, "GET", fmt.Sprint("/servers/", id), "", at("2.94")).ok(200).get("server", "tags"))
			require.Equal(t, "1024 2048 256", c.text(`SELECT string_agg(size_mb::text, ' ' ORDER BY device_name) FROM server_disks WHERE server_id = $1`, id))
		})
	}
	// The sizes that a list gives are those that its schema and the flavor saw.
	twice := func(first, last string) string { return within(devices(first) + "," + devices(last)) }
	id := c.do(t, member, "POST", "/servers", twice("102400", "1"), at("2.94")).ok(202).get("server", "id")
	require.Equal(t, "1024 1024 256", c.text(`SELECT string_agg(size_mb::text, ' ' ORDER BY device_name) FROM server_disks WHERE server_id = $1`, id))
	c.do(t, member, "POST", "/servers", twice("1", "102400"), at("2.94")).ok(400)
	// Elements of a list keep nothing of those of the first one.
	merged := within(devices("2") + `,"block_device_mapping_v2":[{"uuid":"` + c.image + `","source_type":"image","destination_type":"local","boot_index":0},{"source_type":"blank","destination_type":"local","boot_index":-1}]`)
	id = c.do(t, member, "POST", "/servers", strings.Replace(merged, `"volume_size":2`, `"volume_size":1,"tag":"first"`, 1), at("2.94")).ok(202).get("server", "id")
	require.Equal(t, "1024 2048 256", c.text(`SELECT string_agg(size_mb::text, ' ' ORDER BY device_name) FROM server_disks WHERE server_id = $1`, id))
	require.Zero(t, c.count(`SELECT count(*) FROM server_disks WHERE tag IS NOT NULL`))
	c.do(t, member, "POST", "/servers", within(`"min_count":1,"min_count":-5`), at("2.94")).ok(400)
	c.do(t, member, "POST", "/servers", within(`"Min_Count":3`), at("2.94")).ok(400) // no other case of a known key
}

// S1: so it is in an action.
func TestS1AnActionGivenTwiceIsReadOnce(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.active()
	const backup = `{"createBackup":{"metadata":{"%s":"v"},"rotation":-7},"createBackup":{"rotation":-3,"name":"n","backup_type":"daily","rotation":2}}`
	c.act(t, member, id, fmt.Sprintf(backup, strings.Repeat("x", 5000)), at("2.94")).ok(202)
	ops := c.starter.ops()
	var in compute.SnapshotArguments
	require.NoError(t, json.Unmarshal(ops[len(ops)-1].Arguments, &in))
	require.Equal(t, "daily", in.Backup.Type)
	require.Equal(t, 2, in.Backup.Rotation)
	require.Empty(t, in.Metadata)
}

// S1: so it is of what stands beside the server, below /v2, which knows no schema of its own, and of what a dry run is asked about.
func TestS1HintsV2AndDryRunsGivenTwice(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	hints := func(first, last string) string {
		return strings.TrimSuffix(c.hinted(nil, first), "}") + `,"os:scheduler_hints":` + last + `}`
	}
	const unknown = `{"group":"4a1d0f4e-0000-4000-8000-000000000000"}`
	c.do(t, member, "POST", "/servers", hints(unknown, `{}`), at("2.97")).ok(202)
	c.do(t, member, "POST", "/servers", hints(`{}`, unknown), at("2.97")).ok(400)
	c.do(t, member, "POST", "/servers", hints(unknown, `null`), at("2.97")).ok(400)

	good := c.body(map[string]any{"networks": nil, "metadata": map[string]any{"a": "good"}})
	server := strings.TrimSuffix(strings.TrimPrefix(good, `{"server":`), "}")
	for _, body := range []string{
		`{"server":{"min_count":3,"max_count":3,"name":"` + strings.Repeat("x", 5000) + `"},"server":` + server + `}`,
		`{"server":{"min_count":-5,"min_count":1,"metadata":{"` + strings.Repeat("k", 5000) + `":"v"},` + server[1:] + `}`,
	} {
		before := c.count(`SELECT count(*) FROM servers`)
		id := c.raw(t, member, "POST", "/v2/servers", body).ok(202).get("server", "id")
		require.Equal(t, before+1, c.count(`SELECT count(*) FROM servers`))
		require.Equal(t, 1, c.count(`SELECT count(*) FROM servers WHERE id = $1 AND name = 'one' AND metadata = '{"a": "good"}'`, id))
	}

	c.addFlavor("large", nil)
	c.exec(`UPDATE flavors SET root_gb = 8 WHERE id = 'large'`)
	id := c.active()
	const to = `{"resize":{"flavorRef":%q}}`
	large, none := fmt.Sprintf(to, "large"), fmt.Sprintf(to, "none such")
	told := c.dryRun(t, member, id, none+`,"dryRun":`+large).ok(200)
	require.Equal(t, c.dryRun(t, member, id, large).ok(200).body, told.body)
	require.Equal(t, told.body, c.dryRun(t, member, id, `{"resize":{"flavorRef":"none such"},"resize":{"flavorRef":"large"}}`).ok(200).body)
	c.dryRun(t, member, id, large+`,"dryRun":`+none).ok(400)
}
