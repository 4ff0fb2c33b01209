package api_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/api"
	"strongroom/compute"
)

const quotaPath = "/os-quota-sets/" + project

// write writes quotas of the project.
func (b *bundle) write(t *testing.T, limits string) answer {
	t.Helper()
	return b.do(t, admin, "PUT", quotaPath, `{"quota_set":{`+limits+`}}`, at("2.57"))
}

// What was written for a project is shown everywhere, in place of the default, until it is deleted. Nobody else has it.
func TestWrittenQuotasAreShown(t *testing.T) {
	t.Parallel()
	b := setup(t, quotas(compute.Quota{Instances: 7, Cores: 8, MemoryMB: 9, DiskGB: 10, KeyPairs: 6, Groups: 4, GroupMembers: 5}))
	const set = `"instances":20,"cores":-1,"ram":9,"key_pairs":6,"metadata_items":128,"server_groups":0,"server_group_members":5`
	others := b.do(t, admin, "GET", "/os-quota-sets/"+elsewhere, "").ok(200).body
	defaults := b.do(t, reader, "GET", quotaPath+"/defaults", "").ok(200).body
	before := b.do(t, reader, "GET", quotaPath, "").ok(200).body

	b.write(t, `"instances":"20","cores":-1,"server_groups":"00"`).is(200, `{"quota_set":{`+set+`}}`)
	b.write(t, ``).is(200, `{"quota_set":{`+set+`}}`)
	b.do(t, reader, "GET", quotaPath, "", at("2.57")).is(200, `{"quota_set":{"id":"`+project+`",`+set+`}}`)
	require.Equal(t, map[string]any{"limit": 20.0, "in_use": 0.0, "reserved": 0.0},
		b.do(t, reader, "GET", quotaPath+"/detail", "").get("quota_set", "instances"))
	limits := b.do(t, reader, "GET", "/limits", "")
	require.Equal(t, []any{20.0, -1.0, 9.0}, []any{limits.get("limits", "absolute", "maxTotalInstances"),
		limits.get("limits", "absolute", "maxTotalCores"), limits.get("limits", "absolute", "maxTotalRAMSize")})
	b.write(t, `"instances":21`).ok(200)
	require.Equal(t, []any{21.0, -1.0}, []any{b.do(t, reader, "GET", quotaPath, "").get("quota_set", "instances"),
		b.do(t, reader, "GET", quotaPath, "").get("quota_set", "cores")}, "the others stay as they were written")

	b.do(t, reader, "GET", quotaPath+"/defaults", "").is(200, defaults)
	b.do(t, admin, "GET", "/os-quota-sets/"+elsewhere, "").is(200, others)
	b.do(t, admin, "DELETE", "/os-quota-sets/"+elsewhere, "").is(202, "")
	require.NotEqual(t, before, b.do(t, reader, "GET", quotaPath, "").body)
	for range 2 {
		b.do(t, admin, "DELETE", quotaPath, "").is(202, "")
		b.do(t, reader, "GET", quotaPath, "").is(200, before)
	}
}

// Each version takes the resources that it shows.
func TestQuotasOfEachVersionAreWritten(t *testing.T) {
	t.Parallel()
	b := setup(t)
	names := map[string][]string{"2.57": strings.Fields("instances cores ram key_pairs metadata_items server_groups server_group_members")}
	names["2.36"] = append(names["2.57"], files...)
	names["2.1"] = append(names["2.36"], networks...)
	for i, version := range []string{"2.1", "2.36", "2.57"} {
		var limits []string
		for j, name := range names[version] {
			limits = append(limits, fmt.Sprintf(`"%s":%d`, name, 100*i+j))
		}
		all := strings.Join(limits, ",")
		b.do(t, admin, "PUT", quotaPath, `{"quota_set":{"force":false,`+all+`}}`, at(version)).is(200, `{"quota_set":{`+all+`}}`)
		b.do(t, reader, "GET", quotaPath, "", at(version)).is(200, `{"quota_set":{"id":"`+project+`",`+all+`}}`)
	}
}

// What cannot be written is refused with the reason, and nothing of it is written.
func TestBadQuotasAreRefused(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	for name, q := range map[string]struct{ query, body, version, want string }{
		"no object":      {"", `{}`, "2.57", "'quota_set' is a required property"},
		"more":           {"", `{"quota_set":{},"x":1}`, "2.57", "Additional properties are not allowed ('x' was unexpected)"},
		"too small":      {"", `{"quota_set":{"cores":5,"ram":-2}}`, "2.57", "Invalid input for field/attribute ram. Value: -2. -2 is less than the minimum of -1"},
		"too small text": {"", `{"quota_set":{"ram":"-2"}}`, "2.57", "Invalid input for field/attribute ram. Value: -2. -2 is less than the minimum of -1"},
		"too large":      {"", `{"quota_set":{"ram":2147483648}}`, "2.57", "Invalid input for field/attribute ram. Value: 2147483648. 2147483648 is greater than the maximum of 2147483647"},
		"no number":      {"", `{"quota_set":{"ram":"x"}}`, "2.57", "Invalid input for field/attribute ram. Value: x. 'x' does not match '^-?[0-9]+$'"},
		"of networks": {"", `{"quota_set":{"cores":5,"floating_ips":1}}`, "2.36",
			"Invalid input for field/attribute quota_set. Value: {'cores': 5, 'floating_ips': 1}. Additional properties are not allowed ('floating_ips' was unexpected)"},
		"of files": {"", `{"quota_set":{"injected_files":1}}`, "2.57",
			"Invalid input for field/attribute quota_set. Value: {'injected_files': 1}. Additional properties are not allowed ('injected_files' was unexpected)"},
		"networks":        {"", `{"quota_set":{"cores":5,"networks":1}}`, "2.35", "The networks quota has been removed"},
		"a user's":        {"?user_id=u", `{"quota_set":{"cores":5}}`, "2.57", "There are no quotas of single users: without user_id the quota of the project is changed."},
		"another query":   {"?x=1", `{"quota_set":{"cores":5}}`, "2.75", "Additional properties are not allowed ('x' was unexpected)"},
		"query of before": {"?x=1&user_id=u", `{"quota_set":{"cores":5}}`, "2.74", "There are no quotas of single users: without user_id the quota of the project is changed."},
	} {
		t.Run(name, func(t *testing.T) {
			c.do(t, admin, "PUT", quotaPath+q.query, q.body, at(q.version)).fails(400, "badRequest", q.want)
		})
	}
	for _, value := range []string{"1.5", "null", "true", "[]", `""`, `" 1"`, `"1.0"`, "1e300"} {
		c.write(t, `"cores":5,"ram":`+value).ok(400)
	}
	for _, value := range []string{"1", "null", `"maybe"`} {
		c.write(t, `"cores":5,"force":`+value).ok(400)
	}
	c.do(t, admin, "PUT", quotaPath, `{"quota_set":[]}`).ok(400)
	c.do(t, admin, "PUT", "/os-quota-sets/none", `{"quota_set":{"cores":5}}`).fails(400, "badRequest", "Project ID none is not a valid project.")
	require.Zero(t, c.count("SELECT count(*) FROM project_quotas"))

	c.write(t, `"cores":5`).ok(200)
	c.do(t, admin, "DELETE", quotaPath+"?user_id=u", "").
		fails(400, "badRequest", "There are no quotas of single users: without user_id the quota of the project is changed.")
	c.do(t, member, "PUT", quotaPath, `{"quota_set":{"cores":6}}`).
		fails(403, "forbidden", "Policy doesn't allow os_compute_api:os-quota-sets:update to be performed.")
	c.do(t, member, "DELETE", quotaPath, "").fails(403, "forbidden", "Policy doesn't allow os_compute_api:os-quota-sets:delete to be performed.")
	require.Equal(t, 5, c.count("SELECT most FROM project_quotas WHERE project_id = $1 AND resource = 'cores'", project))
	c.do(t, admin, "DELETE", "/os-quota-sets/none", "").is(202, "") // of a project that is gone
}

// A limit is not set below what is used, unless it is forced.
func TestAQuotaBelowWhatIsUsedIsForced(t *testing.T) {
	t.Parallel()
	b := setup(t)
	newServer(t, b, newHost(t, b, "host-a", "nova"), "one")
	b.do(t, admin, "POST", "/os-server-groups", groupBody(`"policies":["affinity"]`)).ok(200)
	for name, used := range map[string]int{"instances": 1, "cores": 2, "ram": 1024, "server_groups": 1} {
		below := fmt.Sprintf(`"%s":%d`, name, used-1)
		b.write(t, `"key_pairs":1,`+below).fails(400, "badRequest",
			fmt.Sprintf("Quota limit %d for %s must be greater than or equal to already used and reserved %d.", used-1, name, used))
		require.EqualValues(t, -1, b.do(t, reader, "GET", quotaPath, "").get("quota_set", "key_pairs"), "nothing was written")
		b.write(t, `"force":"no",`+below).ok(400)
		b.write(t, fmt.Sprintf(`"%s":%d`, name, used)).ok(200)
		b.write(t, fmt.Sprintf(`"%s":-1`, name)).ok(200)
		require.EqualValues(t, used-1, b.write(t, `"force":"yes",`+below).ok(200).get("quota_set", name))
	}
}

// Whatever asks a quota asks the one that was written.
func TestWrittenQuotasHold(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.active()
	group := c.do(t, member, "POST", "/os-server-groups", groupBody(`"policies":["soft-affinity"]`), at("2.15")).ok(200).get("server_group", "id").(string)
	create := func(more map[string]any) func() answer {
		return func() answer { return c.do(t, member, "POST", "/servers", c.body(more), at("2.90")) }
	}
	for _, q := range []struct {
		limit   string
		ask     func() answer
		refused string
		granted int
	}{
		{"instances", create(nil), "Quota exceeded for instances: Requested 1, but already used 1 of 0 instances", 202},
		{"cores", create(nil), "Quota exceeded for cores: Requested 1, but already used 2 of 0 cores", 202},
		{"ram", create(nil), "Quota exceeded for ram: Requested 512, but already used 1536 of 0 ram", 202},
		{"metadata_items", create(map[string]any{"metadata": map[string]string{"a": "b"}}), "Maximum number of metadata items exceeds 0", 202},
		{"server_group_members", func() answer {
			return c.do(t, member, "POST", "/servers", c.hinted(nil, `{"group":"`+group+`"}`), at("2.97"))
		}, "Quota exceeded, too many servers in group", 202},
		{"server_groups", func() answer {
			return c.do(t, member, "POST", "/os-server-groups", groupBody(`"policies":["affinity"]`))
		}, "Quota exceeded, too many server groups.", 200},
		{"key_pairs", func() answer {
			return c.do(t, member, "POST", "/os-keypairs", `{"keypair":{"name":"k","public_key":"`+publicKey+`"}}`)
		}, "Quota exceeded, too many key pairs.", 200},
		{"cores", func() answer { return c.resize(t, member, id) }, "Quota exceeded for cores: Requested 3, but already used 6 of 0 cores", 202},
	} {
		c.write(t, `"force":true,"`+q.limit+`":0`).ok(200)
		q.ask().fails(403, "forbidden", q.refused)
		c.do(t, admin, "DELETE", quotaPath, "").ok(202)
		q.ask().ok(q.granted)
	}
}

// Metadata that a server has may be changed and removed, whatever the limit is. No limit lets it have more than 128 items.
func TestWrittenQuotaOfMetadata(t *testing.T) {
	t.Parallel()
	c := setupRebuild(t)
	id := c.createAs(member, map[string]any{"metadata": map[string]string{"a": "1", "b": "2", "c": "3"}})
	c.settle(id, compute.VMActive, compute.TaskNone)
	do := func(method, key, body string) answer {
		return c.do(t, member, method, "/servers/"+id+"/metadata"+key, body)
	}
	const most = "Maximum number of metadata items exceeds 2"
	c.write(t, `"metadata_items":2`).ok(200)
	require.EqualValues(t, 2, c.do(t, reader, "GET", "/limits", "").get("limits", "absolute", "maxServerMeta"))
	do("POST", "", `{"metadata":{"d":"4"}}`).fails(403, "forbidden", most)
	do("PUT", "/a", `{"meta":{"a":"one"}}`).ok(200)
	do("DELETE", "/a", "").ok(204)
	do("PUT", "/d", `{"meta":{"d":"4"}}`).fails(403, "forbidden", most)
	do("PUT", "", `{"metadata":{"d":"4","e":"5","f":"6"}}`).fails(403, "forbidden", most)
	do("GET", "", "").is(200, `{"metadata":{"b":"2","c":"3"}}`)
	c.rebuild(t, member, id, c.image, `, "metadata": {"d":"4","e":"5","f":"6"}`, "2.90").fails(403, "forbidden", most)
	var many []string
	for i := range 128 {
		many = append(many, fmt.Sprintf(`"k%d":"v"`, i))
	}
	for _, limit := range []string{"200", "-1"} {
		c.write(t, `"metadata_items":`+limit).ok(200)
		do("POST", "", `{"metadata":{`+strings.Join(many, ",")+`}}`).fails(403, "forbidden", "Maximum number of metadata items exceeds 128")
	}
	c.rebuild(t, member, id, c.image, `, "metadata": {"d":"4","e":"5","f":"6"}`, "2.90").ok(202)
}

// Where quotas are Keystone's limits, none is written, and what was written before is not looked at.
func TestLimitsOfKeystoneAreNotWritten(t *testing.T) {
	t.Parallel()
	c := setupCloud(t, func(config *api.Config) {
		config.Quotas = keystones{given(compute.Quota{Instances: 7, Cores: 8, MemoryMB: 4096, DiskGB: 10, KeyPairs: 6})}
	})
	c.exec("INSERT INTO project_quotas (project_id, resource, most) VALUES ($1, 'instances', 0), ($1, 'metadata_items', 0)", project)
	for _, method := range []string{"PUT", "DELETE"} {
		for _, query := range []string{"", "?user_id=u"} {
			c.do(t, admin, method, quotaPath+query, `{"quota_set":{"instances":1000}}`).fails(403, "forbidden", elsewhereSet)
		}
		c.do(t, member, method, quotaPath, `{"quota_set":{"instances":1000}}`).ok(403)
	}
	require.EqualValues(t, 7, c.do(t, reader, "GET", quotaPath, "").get("quota_set", "instances"))
	require.EqualValues(t, 7, c.do(t, reader, "GET", "/limits", "").get("limits", "absolute", "maxTotalInstances"))
	c.create(map[string]any{"metadata": map[string]string{"a": "b"}})
	require.Equal(t, 2, c.count("SELECT count(*) FROM project_quotas"))
}

// Who may write the quotas of his project by a cloud's policy writes those of no other one.
func TestQuotasAreWrittenWhereThePolicySaysSo(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "policy.yaml")
	require.NoError(t, os.WriteFile(file, []byte("os_compute_api:os-quota-sets:update: rule:project_member_api\nos_compute_api:os-quota-sets:delete: rule:project_member_api\n"), 0o600))
	c := setupCloud(t, func(config *api.Config) { config.PolicyFile = file })
	for _, method := range []string{"PUT", "DELETE"} {
		require.Equal(t, 403, c.do(t, member, method, "/os-quota-sets/"+elsewhere, `{"quota_set":{"instances":1000}}`).code, method)
	}
	require.Zero(t, c.count("SELECT count(*) FROM project_quotas"))
	c.do(t, member, "PUT", quotaPath, `{"quota_set":{"instances":1000}}`).ok(200)
	c.do(t, member, "DELETE", quotaPath, "").ok(202)
}
