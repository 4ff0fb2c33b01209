package api_test

import (
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/schema/schematest"
)

// dumpAll is everything that a move would write.
func (c *cloud) dumpAll() string {
	c.t.Helper()
	var all string
	for _, table := range append([]string{"hosts", "credentials", "migrations"}, schematest.Everything...) {
		all += c.text(fmt.Sprintf("SELECT coalesce(string_agg(t::text, E'\\n' ORDER BY t::text), '') FROM %s t", table))
	}
	return all
}

// dryRun asks what a move would do, and sees that it does nothing.
func (c *cloud) dryRun(t *testing.T, as who, id, move string) answer {
	t.Helper()
	before, began := c.dumpAll(), len(c.starter.ops())
	got := c.act(t, as, id, `{"dryRun": `+move+`}`, at("2.97, strongroom 1.0"))
	require.Equal(t, before, c.dumpAll(), "nothing is written")
	require.Len(t, c.starter.ops(), began)
	return got
}

// moving is a cloud with two hosts and a server with encrypted disks and a vTPM on the first.
func moving(t *testing.T, security string) (c *cloud, id string, keys []string) {
	t.Helper()
	c = setupRebuild(t)
	id = c.lockedUp(security)
	c.exec(`UPDATE servers SET host_id = $2 WHERE id = $1`, id, c.host)
	c.exec(`INSERT INTO hosts (id, name, agent_url, vcpus, memory_mb, disk_gb, last_seen, traits)
		SELECT $1, 'node-2', 'http://other', vcpus, memory_mb, disk_gb, last_seen, traits FROM hosts WHERE id = $2`, uuid.New(), c.host)
	tpm := uuid.NewString()
	c.exec(`UPDATE servers SET tpm = jsonb_build_object('version', '2.0', 'model', 'tpm-crb', 'security', $2::text) WHERE id = $1`, id, security)
	c.exec(`INSERT INTO server_system_metadata (server_id, key, value) VALUES ($1, $2, $3)`, id, compute.SystemTPMSecret, tpm)
	return c, id, []string{c.text(`SELECT encryption_secret_uuid::text FROM server_disks WHERE server_id = $1 AND role = 'root'`, id), tpm}
}

// A dry run tells the host, the bytes and the keys of a move, and changes nothing.
func TestDryRun(t *testing.T) {
	t.Parallel()
	c, id, keys := moving(t, "user")
	got := c.dryRun(t, admin, id, `{"migrate": null}`).ok(200)
	require.Equal(t, "migrate", got.get("dry_run", "action"))
	require.Equal(t, true, got.get("dry_run", "succeeds"), got.body)
	require.Empty(t, got.get("dry_run", "refusals"))
	require.Equal(t, true, got.get("dry_run", "stops_guest"))
	require.Equal(t, "node-2", got.get("dry_run", "host", "name"))
	require.Equal(t, "has the server, or something of it that waits to be removed", got.get("dry_run", "unfit_hosts", 0, "why"))
	require.Contains(t, got.body, `{"what":"disk root","bytes":`)
	require.Contains(t, got.body, `{"what":"state of the vTPM","bytes":null,"exact":false}`)
	disks := c.count(`SELECT sum(size_mb) FROM server_disks WHERE server_id = $1`, id)
	require.GreaterOrEqual(t, got.get("dry_run", "bytes"), float64(disks)*(1<<20))
	require.Contains(t, got.body, fmt.Sprintf(`{"secret_uuid":%q,"of":"disk root, disk ephemeral0","secret_security":"user","read_by":"whoever asks","readable":true}`, keys[0]))
	require.Contains(t, got.body, fmt.Sprintf(`{"secret_uuid":%q,"of":"the vTPM","secret_security":"user","read_by":"whoever asks","readable":true}`, keys[1]))

	c.addFlavor("large", nil)
	c.exec(`UPDATE flavors SET root_gb = 8, vcpus = 2 WHERE id = 'large'`)
	c.exec(`INSERT INTO flavor_extra_specs (flavor_id, key, value) SELECT 'large', key, value FROM servers, jsonb_each_text(flavor -> 'extra_specs') WHERE id = $1`, id)
	for move, carries := range map[string]bool{`{"shelve": null}`: true, `{"resize": {"flavorRef": "large"}}`: true} {
		got := c.dryRun(t, member, id, move)
		require.Equal(t, 200, got.code, got.body)
		require.Equal(t, carries, got.get("dry_run", "bytes").(float64) > 0, got.body)
		require.Nil(t, got.get("dry_run", "host"), "hosts are the administrator's to know")
		require.NotContains(t, got.body, "node-")
	}
	c.settle(id, compute.VMStopped, compute.TaskNone)
	got = c.dryRun(t, admin, id, `{"migrate": null}`).ok(200)
	require.Empty(t, got.get("dry_run", "keys"), "a server that is off needs none")
	require.Equal(t, false, got.get("dry_run", "stops_guest"))
}

// What would be refused is told with the answer that the request would have, and what the
// operation would fail for with its reason.
func TestDryRunTellsWhyNot(t *testing.T) {
	t.Parallel()
	c, id, keys := moving(t, "user")
	refusal := func(got answer) (code any, message string) {
		t.Helper()
		got.ok(200)
		require.Equal(t, false, got.get("dry_run", "succeeds"))
		refused := got.get("dry_run", "refusals", 0).(map[string]any)
		return refused["code"], refused["message"].(string)
	}
	for name, v := range map[string]struct {
		as         who
		move       string
		arm        func()
		code       any
		says       string
		actionSays int // the answer to the action itself
	}{
		"its state":  {admin, `{"migrate": null}`, func() { c.settle(id, compute.VMPaused, compute.TaskNone) }, 409.0, "while it is in vm_state paused", 409},
		"its lock":   {member, `{"shelve": null}`, func() { c.exec(`UPDATE servers SET locked_by = 'admin' WHERE id = $1`, id) }, 409.0, "is locked", 409},
		"its host":   {admin, `{"migrate": null}`, func() { c.exec(`UPDATE hosts SET forced_down = true WHERE name = 'node-1'`) }, 409.0, "Service is unavailable", 409},
		"no host":    {admin, `{"migrate": null}`, func() { c.exec(`UPDATE hosts SET disabled = true WHERE name = 'node-2'`) }, nil, compute.NoValidHost, 202},
		"its keys":   {admin, `{"migrate": null}`, func() { c.keys.unread = compute.Errorf(compute.Forbidden, "no") }, nil, "Secret " + keys[0] + ", the key of disk root, disk ephemeral0, cannot be read by whoever asks", 202},
		"no objects": {member, `{"shelve": null}`, func() { c.objects.answer = compute.Errorf(compute.Forbidden, "no") }, nil, "The object store does not take the state of the vTPM", 202},
		"not moved":  {member, `{"confirmResize": null}`, func() {}, 409.0, "while it is in vm_state active", 409},
		"not fenced": {admin, `{"evacuate": {}}`, func() {}, 400.0, "is still in use", 400},
		"no host to go on": {admin, `{"os-migrateLive": {"host": null, "block_migration": "auto"}}`,
			func() { c.exec(`UPDATE hosts SET disabled = true WHERE name = 'node-2'`) }, nil, compute.NoValidHost, 202},
		"not shelved": {member, `{"unshelve": null}`, func() {}, 409.0, "while it is in vm_state active", 409},
	} {
		c.settle(id, compute.VMActive, compute.TaskNone)
		v.arm()
		code, message := refusal(c.dryRun(t, v.as, id, v.move))
		require.Equal(t, v.code, code, name)
		require.Contains(t, message, v.says, name)
		require.Equal(t, v.actionSays, c.act(t, v.as, id, v.move, at(extended)).code, "%s: the action itself", name)
		c.settle(id, compute.VMActive, compute.TaskNone)
		c.exec(`UPDATE servers SET locked_by = NULL WHERE id = $1`, id)
		c.exec(`UPDATE hosts SET forced_down = false, disabled = false`)
		c.keys.unread, c.objects.answer = nil, nil
	}
}

// The keys of a server that delegates them are read by its trust, which must be there; those of
// the mode deployment by strongroom.
func TestDryRunOfDelegatedKeys(t *testing.T) {
	t.Parallel()
	c, id, _ := moving(t, "host")
	got := c.dryRun(t, operator, id, `{"migrate": null}`).ok(200)
	require.Equal(t, false, got.get("dry_run", "succeeds"))
	require.Contains(t, got.body, "strongroom, by what the server's owner delegated")
	row := c.row(id)
	c.exec(`INSERT INTO credentials (id, project_id, user_id, trust_id) VALUES ($1, $2, $3, 'trust')`,
		compute.DelegatedCredential(row.ID, row.ProjectID, row.UserID).ID, row.ProjectID, row.UserID)
	got = c.dryRun(t, operator, id, `{"migrate": null}`).ok(200)
	require.Equal(t, true, got.get("dry_run", "succeeds"), got.body)
	require.Empty(t, c.keys.looked, "the trust is the workers' to use")

	c, id, _ = moving(t, "deployment")
	got = c.dryRun(t, operator, id, `{"migrate": null}`).ok(200)
	require.Equal(t, true, got.get("dry_run", "succeeds"), got.body)
	require.Contains(t, got.body, `"read_by":"strongroom itself"`)
}

// An offloaded server's dry run names its images' bytes; the move of one whose image is gone would fail.
func TestDryRunOfAnUnshelve(t *testing.T) {
	t.Parallel()
	c, id, _ := moving(t, "user")
	kept := c.addImage(nil)
	c.exec(`UPDATE server_disks SET shelved = jsonb_build_object('image', $2::text, 'size_bytes', 1000, 'sha256', 'x') WHERE server_id = $1`, id, kept)
	c.exec(`UPDATE servers SET host_id = NULL WHERE id = $1`, id)
	c.settle(id, compute.VMShelvedOffloaded, compute.TaskNone)
	got := c.dryRun(t, admin, id, `{"unshelve": {"host": "node-1"}}`).ok(200)
	require.Equal(t, true, got.get("dry_run", "succeeds"), got.body)
	require.Equal(t, "node-1", got.get("dry_run", "host", "name"))
	require.Equal(t, "is not the host that was asked for", got.get("dry_run", "unfit_hosts", 0, "why"))
	require.Contains(t, got.body, `{"what":"disk root","bytes":1000,"exact":true}`)
	c.hasStatus(kept, "queued")
	got = c.dryRun(t, admin, id, `{"unshelve": {"host": "node-1"}}`).ok(200)
	require.Equal(t, false, got.get("dry_run", "succeeds"))
	require.Contains(t, got.get("dry_run", "refusals", 0, "message"), "keeps the data of disk root: it is queued")
	c.keptInImages(id)
	got = c.dryRun(t, member, id, `{"unshelve": null}`).ok(200)
	require.Equal(t, false, got.get("dry_run", "succeeds"))
	require.Contains(t, got.body, "keeps the data of disk root")
}

// Who forgets the header moves nothing; what is wrong with the request is answered as always.
func TestDryRunRefuses(t *testing.T) {
	t.Parallel()
	c, id, _ := moving(t, "user")
	before := c.dumpAll()
	c.act(t, admin, id, `{"dryRun": {"migrate": null}}`, at("2.90")).fails(400, "badRequest", "There is no such action: dryRun")
	for body, v := range map[string]struct {
		as   who
		code int
		says string
	}{
		`{"migrate": null}`:                    {member, 403, "os_compute_api:os-migrate-server:migrate"},
		`{"shelve": null}`:                     {stranger, 404, "could not be found"},
		`{"os-stop": null}`:                    {admin, 400, "There is no such action: os-stop"},
		`{"dryRun": {"shelve": null}}`:         {admin, 400, "There is no such action: dryRun"},
		`{}`:                                   {admin, 400, "dryRun"},
		`{"shelve": null, "migrate": null}`:    {admin, 400, "dryRun"},
		`null`:                                 {admin, 400, "dryRun"},
		`[]`:                                   {admin, 400, "dryRun"},
		`{"resize": {"flavorRef": "nope"}}`:    {member, 400, "Flavor nope could not be found."},
		`{"resize": {}}`:                       {member, 400, "flavorRef"},
		`{"migrate": {"host": "nowhere"}}`:     {admin, 400, "Compute host nowhere could not be found."},
		`{"migrate": {"host": "node-1"}}`:      {admin, 400, "Cannot migrate to the host where the server exists."},
		`{"migrate": {"host": 1}}`:             {admin, 400, "host"},
		`{"unshelve": {"zone": "nova"}}`:       {member, 400, "zone"},
		`{"migrate": {"host": "", "more": 1}}`: {admin, 400, "Additional properties"},
		`{"confirmResize": null}`:              {stranger, 404, "could not be found"},
		`{"shelveOffload": null}`:              {member, 403, "os_compute_api:os-shelve:shelve_offload"},
		`{"evacuate": {}}`:                     {member, 403, "os_compute_api:os-evacuate"},
		`{"evacuate": {"host": 1}}`:            {admin, 400, "host"},

		`{"os-migrateLive": {"host": null, "block_migration": "auto"}}`:      {member, 403, "os_compute_api:os-migrate-server:migrate_live"},
		`{"os-migrateLive": {"host": "nowhere", "block_migration": "auto"}}`: {admin, 400, "Compute host nowhere could not be found."},
		`{"os-migrateLive": {"host": null}}`:                                 {admin, 400, "block_migration"},
	} {
		got := c.act(t, v.as, id, `{"dryRun": `+body+`}`, at(extended))
		require.Equal(t, v.code, got.code, "%s: %s", body, got.body)
		require.Contains(t, got.body, v.says, body)
	}
	require.Equal(t, before, c.dumpAll())
}

// A quota that the move would pass is told.
func TestDryRunAsksTheQuota(t *testing.T) {
	t.Parallel()
	c := setupCloud(t, quotas(compute.Quota{Instances: 10, Cores: 2, MemoryMB: 1 << 20, DiskGB: compute.Unlimited}))
	id := c.active()
	c.addFlavor("large", nil)
	c.exec(`UPDATE flavors SET root_gb = 8, vcpus = 4 WHERE id = 'large'`)
	got := c.dryRun(t, member, id, `{"resize": {"flavorRef": "large"}}`).ok(200)
	require.EqualValues(t, 403, got.get("dry_run", "refusals", 0, "code"))
	require.Contains(t, got.get("dry_run", "refusals", 0, "message"), "Quota exceeded for cores")
}
