package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/schema"
)

// A dry run of a live migration counts the memory, too, and stops no guest.
func TestDryRunOfALiveMigration(t *testing.T) {
	t.Parallel()
	c, id, keys := moving(t, "user")
	got := c.dryRun(t, admin, id, `{"os-migrateLive": {"host": null, "block_migration": "auto"}}`).ok(200)
	require.Equal(t, true, got.get("dry_run", "succeeds"), got.body)
	require.Equal(t, "live-migration", got.get("dry_run", "action"))
	require.Equal(t, false, got.get("dry_run", "stops_guest"))
	require.Equal(t, "node-2", got.get("dry_run", "host", "name"))
	require.Empty(t, got.get("dry_run", "lost"))
	memory := c.count(`SELECT (flavor ->> 'memory_mb')::bigint FROM servers WHERE id = $1`, id)
	disks := c.count(`SELECT sum(size_mb) FROM server_disks WHERE server_id = $1`, id)
	require.GreaterOrEqual(t, got.get("dry_run", "bytes"), float64(memory+disks)*(1<<20))
	require.Contains(t, got.body, `{"what":"memory","bytes":`)
	require.Contains(t, got.body, keys[0])
	require.Contains(t, got.body, keys[1])

	c.keys.unread = compute.Errorf(compute.Forbidden, "no")
	got = c.dryRun(t, admin, id, `{"os-migrateLive": {"host": "node-2", "block_migration": "auto"}}`).ok(200)
	require.Equal(t, false, got.get("dry_run", "succeeds"))
	require.EqualValues(t, 403, got.get("dry_run", "refusals", 0, "code"), "EE-30")
	require.Contains(t, got.get("dry_run", "refusals", 0, "message"), "of its disks, and its host does not keep it")

	c.exec(`UPDATE hosts SET agent_url = 'http://agent' WHERE id = $1`, c.host)
	for _, key := range keys {
		c.consoles.kept = append(c.consoles.kept, compute.SecretID{UUID: uuid.MustParse(key)})
	}
	got = c.dryRun(t, admin, id, `{"os-migrateLive": {"host": "node-2", "block_migration": "auto"}}`).ok(200)
	require.Equal(t, true, got.get("dry_run", "succeeds"), got.body)
	require.Contains(t, got.body, `"read_by":"its host, which keeps it","readable":true`)
}

// A dry run of a resize that takes the vTPM away looks at its key with its own credential, and says whose it is.
func TestDryRunOfAResizeWithoutTheVTPM(t *testing.T) {
	t.Parallel()
	c, id, keys := moving(t, "user")
	c.exec(`UPDATE servers SET tpm = jsonb_set(tpm, '{security}', '"deployment"') WHERE id = $1`, id)
	c.addFlavor("large", nil)
	c.exec(`UPDATE flavors SET root_gb = 8 WHERE id = 'large'`)
	c.exec(`INSERT INTO flavor_extra_specs (flavor_id, key, value) SELECT 'large', key, value FROM servers, jsonb_each_text(flavor -> 'extra_specs') WHERE id = $1`, id)
	got := c.dryRun(t, member, id, `{"resize": {"flavorRef": "large"}}`).ok(200)
	require.Contains(t, got.body, fmt.Sprintf(`{"secret_uuid":%q,"of":"the vTPM","secret_security":"deployment","read_by":"strongroom itself","readable":true}`, keys[1]))
	require.NotContains(t, got.body, `{"what":"state of the vTPM"`)
}

// A dry run of an evacuate says what is lost, and which keys are needed to start the guest; from
// 2.95 on it is not started.
func TestDryRunOfAnEvacuate(t *testing.T) {
	t.Parallel()
	c, id, keys := moving(t, "user")
	c.fenced(true, "1 hour")
	before := c.dumpAll()
	for version, started := range map[string]bool{"2.1": true, "2.91": true, "2.97": false} {
		body := `{"dryRun": {"evacuate": {}}}`
		if version == "2.1" {
			body = `{"dryRun": {"evacuate": {"onSharedStorage": false}}}`
		}
		got := c.act(t, admin, id, body, at(version+", strongroom 1.0")).ok(200)
		require.Equal(t, true, got.get("dry_run", "succeeds"), got.body)
		require.Equal(t, "node-2", got.get("dry_run", "host", "name"))
		require.Equal(t, false, got.get("dry_run", "stops_guest"))
		require.Contains(t, got.body, keys[0])
		require.Equal(t, started, strings.Contains(got.body, keys[1]), version)
		require.Contains(t, got.body, `{"what":"image under the root disk","bytes":`)
		require.Contains(t, got.body, `{"what":"disk root","bytes":`)
		require.Contains(t, got.body, `{"what":"state of the vTPM","bytes":null,"exact":false}`)
		require.Len(t, got.get("dry_run", "data"), 1)
		require.Len(t, got.get("dry_run", "lost"), 1+c.count(`SELECT count(*) FROM server_disks WHERE server_id = $1`, id))
	}
	require.Equal(t, before, c.dumpAll())
	c.exec(`UPDATE hosts SET disabled = true WHERE name = 'node-2'`)
	require.Contains(t, c.dryRun(t, admin, id, `{"evacuate": {}}`).ok(200).body, compute.NoValidHost)
}

// A dry run of an evacuate looks whether the image is there, and has data, that the root disk is made anew of.
func TestDryRunOfAnEvacuateWithoutItsImage(t *testing.T) {
	t.Parallel()
	c, id, _ := moving(t, "user")
	c.fenced(true, "1 hour")
	refuses := func(why string) {
		t.Helper()
		got := c.dryRun(t, admin, id, `{"evacuate": {}}`).ok(200)
		require.Equal(t, false, got.get("dry_run", "succeeds"), got.body)
		require.Equal(t, "The root disk is made anew of image "+c.image+": "+why, got.get("dry_run", "refusals", 0, "message"))
		require.NotContains(t, c.dryRun(t, admin, id, `{"migrate": null}`).ok(200).body, c.image, "the host that has it hands it on")
	}
	c.hasStatus(c.image, "deactivated")
	refuses("it is deactivated")
	delete(c.imageStore.images, compute.ImageID{UUID: uuid.MustParse(c.image)})
	refuses("no image " + c.image)
}

// hasStatus gives an image another status.
func (c *cloud) hasStatus(image, status string) {
	c.t.Helper()
	id := compute.ImageID{UUID: uuid.MustParse(image)}
	img := c.imageStore.images[id]
	img.Status = status
	c.imageStore.images[id] = img
}

// A dry run of an evacuate looks for the backup of the vTPM's state, as the evacuate does.
func TestDryRunOfAnEvacuateWithABackup(t *testing.T) {
	t.Parallel()
	c, id, _ := moving(t, "user")
	c.fenced(true, "1 hour")
	server, err := schema.LoadServer(t.Context(), schema.New(c.pool), compute.ServerID{UUID: uuid.MustParse(id)})
	require.NoError(t, err)
	text, err := json.Marshal(compute.TPMBackup{StoredTPM: compute.StoredTPM{Object: "the-backup"}, Of: *server.TPM, Generation: 1})
	require.NoError(t, err)
	c.exec(`UPDATE servers SET tpm_backup = $2 WHERE id = $1`, id, text)
	const (
		since = `{"what":"state of the vTPM, since its backup","bytes":null,"exact":false}`
		whole = `{"what":"state of the vTPM","bytes":null,"exact":false}`
	)
	got := c.dryRun(t, admin, id, `{"evacuate": {}}`).ok(200)
	require.Equal(t, true, got.get("dry_run", "succeeds"), got.body)
	require.Contains(t, got.body, since)
	require.Len(t, got.get("dry_run", "data"), 2)

	for _, kind := range []compute.Kind{compute.NotFound, compute.Corrupt} {
		c.objects.answer = compute.Errorf(kind, "no")
		got = c.dryRun(t, admin, id, `{"evacuate": {}}`).ok(200)
		require.Equal(t, true, got.get("dry_run", "succeeds"), got.body)
		require.NotContains(t, got.body, since)
		require.Contains(t, got.body, whole)
		require.Len(t, got.get("dry_run", "data"), 1)
	}
	c.objects.answer = compute.Errorf(compute.Unavailable, "away")
	got = c.dryRun(t, admin, id, `{"evacuate": {}}`).ok(200)
	require.Equal(t, false, got.get("dry_run", "succeeds"), got.body)
	require.Contains(t, got.get("dry_run", "refusals", 0, "message"), "Object the-backup has the backup of the vTPM's state: ")
}

// A shelved server leaves its host where what keeps it is there, and no other host may run it.
func TestDryRunOfAnOffload(t *testing.T) {
	t.Parallel()
	c, id, _ := moving(t, "user")
	const offload = `{"shelveOffload": null}`
	c.settle(id, compute.VMShelved, compute.TaskNone)
	got := c.dryRun(t, admin, id, offload).ok(200)
	require.Contains(t, got.get("dry_run", "refusals", 0, "message"), "is kept in no image.")
	require.Contains(t, got.body, "The state of the vTPM is kept nowhere.")

	kept := c.addImage(nil)
	c.exec(`UPDATE server_disks SET shelved = jsonb_build_object('image', $2::text, 'size_bytes', 1000, 'sha256', 'x') WHERE server_id = $1`, id, kept)
	c.exec(`INSERT INTO server_system_metadata (server_id, key, value) VALUES ($1, $2, 'tpm/state'), ($1, $3, 'x')`, id, compute.SystemTPMObject, compute.SystemTPMObjectSHA256)
	got = c.dryRun(t, admin, id, offload).ok(200)
	require.Equal(t, true, got.get("dry_run", "succeeds"), got.body)
	require.Nil(t, got.get("dry_run", "host"))
	require.Empty(t, got.get("dry_run", "keys"))
	require.Empty(t, got.get("dry_run", "data"))
	require.Empty(t, got.get("dry_run", "lost"))

	c.objects.answer = compute.Errorf(compute.NotFound, "it is not there")
	require.Contains(t, c.dryRun(t, admin, id, offload).ok(200).get("dry_run", "refusals", 0, "message"), "Object tpm/state keeps the state of the vTPM: it is not there")
	c.objects.answer = nil
	c.mayRun(id)
	require.Contains(t, c.dryRun(t, admin, id, offload).ok(200).get("dry_run", "refusals", 0, "message"), "may still run the server")
	c.keptInImages(id)
	require.Contains(t, c.dryRun(t, admin, id, offload).ok(200).body, "keeps the data of disk root")
}

// mayRun says that a host that did not answer may run the server.
func (c *cloud) mayRun(id string) {
	c.t.Helper()
	c.exec(`INSERT INTO ledger (id, kind, place, name, owner_kind, owner_id, operation_id, credential_id, project_id, user_id, state, blocked_by, try_at)
		VALUES ($2, 'running_domain', (SELECT id::text FROM hosts WHERE name = 'node-2'), 'instance', 'server', $1, 'req-old', $3, 'p', 'u', 'waiting', 'host', now())`,
		id, uuid.New(), uuid.New())
}

// What a confirm and a revert give up is told before, and which keys a revert reads.
func TestDryRunOfADecision(t *testing.T) {
	t.Parallel()
	c, id, keys := moving(t, "user")
	old := uuid.NewString()
	c.exec(`UPDATE servers SET former = jsonb_build_object('operation', 'req-x', 'host', (SELECT id FROM hosts WHERE name = 'node-2'), 'host_name', 'node-2',
		'vm_state', 'active', 'flavor', flavor, 'tpm', NULL,
		'disks', jsonb_build_array(jsonb_build_object('id', $2::text, 'role', 'root', 'size_mb', 7, 'encryption_secret_uuid', $3::text))) WHERE id = $1`, id, uuid.NewString(), old)
	c.settle(id, compute.VMResized, compute.TaskNone)

	got := c.dryRun(t, admin, id, `{"confirmResize": null}`).ok(200)
	require.Equal(t, true, got.get("dry_run", "succeeds"), got.body)
	require.Equal(t, "node-1", got.get("dry_run", "host", "name"))
	require.Empty(t, got.get("dry_run", "keys"))
	require.Contains(t, got.body, `"lost":[{"what":"disk root, from before the move","bytes":7340032,"exact":false}]`)
	require.NotContains(t, c.dryRun(t, member, id, `{"confirmResize": null}`).ok(200).body, "node-")

	got = c.dryRun(t, admin, id, `{"revertResize": null}`).ok(200)
	require.Equal(t, true, got.get("dry_run", "succeeds"), got.body)
	require.Equal(t, "node-2", got.get("dry_run", "host", "name"))
	require.Contains(t, got.body, `{"what":"disk root, since the move","bytes":`)
	require.Contains(t, got.body, `{"what":"state of the vTPM, since the move"`)
	require.Contains(t, got.body, `{"secret_uuid":"`+old+`","of":"disk root"`)
	require.Equal(t, true, got.get("dry_run", "stops_guest"))
	require.Contains(t, got.body, keys[0], "where the revert fails, the server is started again")
	c.exec(`UPDATE servers SET power_state = 4 WHERE id = $1`, id)
	got = c.dryRun(t, admin, id, `{"revertResize": null}`).ok(200)
	require.Equal(t, false, got.get("dry_run", "stops_guest"))
	require.Contains(t, got.body, old)
	require.NotContains(t, got.body, keys[0])

	c.exec(`UPDATE hosts SET forced_down = true WHERE name = 'node-2'`)
	require.Contains(t, c.dryRun(t, member, id, `{"revertResize": null}`).ok(200).get("dry_run", "refusals", 0, "message"), "Service is unavailable at this time.")
	c.exec(`UPDATE hosts SET forced_down = false`)
	c.keys.unread = compute.Errorf(compute.Forbidden, "no")
	require.Contains(t, c.dryRun(t, admin, id, `{"revertResize": null}`).ok(200).get("dry_run", "refusals", 0, "message"), "cannot be read by whoever asks")
	c.keys.unread = nil
	c.mayRun(id)
	require.Contains(t, c.dryRun(t, admin, id, `{"confirmResize": null}`).ok(200).get("dry_run", "refusals", 0, "message"), "may still run the server")
	require.EqualValues(t, 409, c.dryRun(t, admin, id, `{"revertResize": null}`).ok(200).get("dry_run", "refusals", 0, "code"))
}

// TPM-39: to a host that shares the storage of TPM states no server with a vTPM is migrated live, and
// none that is evacuated there loses its state.
func TestMovesOnStorageThatHostsShare(t *testing.T) {
	t.Parallel()
	c, id, _ := moving(t, "user")
	c.exec(`UPDATE hosts SET tpm_storage = 'one'`)
	live := `{"os-migrateLive": {"host": %s, "block_migration": "auto"}}`
	got := c.dryRun(t, admin, id, fmt.Sprintf(live, "null")).ok(200)
	require.Equal(t, compute.NoValidHost, got.get("dry_run", "refusals", 0, "message"))
	require.Contains(t, got.body, "shares the storage of TPM states")
	named := fmt.Sprintf(live, `"node-2"`)
	require.EqualValues(t, 409, c.dryRun(t, admin, id, named).ok(200).get("dry_run", "refusals", 0, "code"))
	c.act(t, admin, id, named, at("2.90")).fails(409, "conflictingRequest", compute.SharedTPMStorage)
	require.NotContains(t, c.dryRun(t, admin, id, `{"migrate": null}`).ok(200).body, "state of the vTPM")
	c.fenced(true, "1 hour")
	require.NotContains(t, c.dryRun(t, admin, id, `{"evacuate": {}}`).ok(200).body, "state of the vTPM")
	c.exec(`INSERT INTO hosts (id, name, agent_url, traits, vcpus, memory_mb, disk_gb, tpm_storage, last_seen)
		SELECT $1, 'node-3', agent_url, traits, vcpus, 10 * memory_mb, disk_gb, 'another', now() FROM hosts WHERE name = 'node-2'`, uuid.New()) // has more room, and not the state
	require.Equal(t, "node-2", c.dryRun(t, admin, id, `{"evacuate": {}}`).ok(200).get("dry_run", "host", "name"))
	c.exec(`UPDATE hosts SET tpm_storage = name`)
	got = c.dryRun(t, admin, id, `{"evacuate": {}}`).ok(200)
	require.Equal(t, "node-3", got.get("dry_run", "host", "name"))
	require.Contains(t, got.body, "state of the vTPM")
	c.exec(`DELETE FROM hosts WHERE name = 'node-3'`)

	c.fenced(false, "0 seconds")
	c.exec(`UPDATE hosts SET tpm_storage = name`)
	c.act(t, admin, id, named, at("2.90")).ok(202)
}

// A dry run of a drain says of each server of the host how it would leave it, to which host, beside those
// before it, and with which keys; and of one that would stay, why. It changes nothing.
func TestDryRunOfADrain(t *testing.T) {
	t.Parallel()
	c, id, keys := moving(t, "user")
	drain := "/os-services/" + c.host.String() + "/drain"
	ask := func(query string) answer {
		t.Helper()
		before, began := c.dumpAll(), len(c.starter.ops())
		got := c.do(t, admin, "GET", drain+query, "", at("2.97, strongroom 1.0"))
		require.Equal(t, before, c.dumpAll(), "nothing is written")
		require.Len(t, c.starter.ops(), began)
		return got.ok(200)
	}
	require.Equal(t, 404, c.do(t, admin, "GET", drain, "", at("2.97")).code)
	require.Equal(t, 403, c.do(t, member, "GET", drain, "", at("2.97, strongroom 1.0")).code)

	got := ask("")
	require.Equal(t, true, got.get("dry_run", "succeeds"), got.body)
	require.Equal(t, id, got.get("dry_run", "servers", 0, "id"))
	require.Equal(t, "live-migration", got.get("dry_run", "servers", 0, "action"))
	require.Equal(t, "node-2", got.get("dry_run", "servers", 0, "host", "name"))
	require.Positive(t, got.get("dry_run", "bytes"))
	require.Contains(t, got.body, keys[0])
	require.Contains(t, got.body, `"read_by":"strongroom, by a role of its own in the server's project","readable":true`)

	got = ask("?cold=true")
	require.Equal(t, false, got.get("dry_run", "succeeds"))
	require.Empty(t, got.get("dry_run", "servers", 0, "action"), "it would not be tried")
	require.Contains(t, got.get("dry_run", "servers", 0, "refusals", 0, "message"), "only its project's own requests can read its keys")

	c.keys.unread = compute.Errorf(compute.Forbidden, "no")
	got = ask("")
	require.Equal(t, false, got.get("dry_run", "succeeds"))
	require.Contains(t, got.get("dry_run", "servers", 0, "refusals", 0, "message"), "its host does not keep it")
	c.exec(`UPDATE hosts SET agent_url = 'http://agent' WHERE id = $1`, c.host)
	for _, key := range keys {
		c.consoles.kept = append(c.consoles.kept, compute.SecretID{UUID: uuid.MustParse(key)})
	}
	got = ask("")
	require.Equal(t, true, got.get("dry_run", "succeeds"), got.body)
	require.Contains(t, got.body, `"read_by":"its host, which keeps it","readable":true`)

	// The first server takes the room of the second one.
	second := c.lockedUp("host")
	c.exec(`UPDATE servers SET host_id = $2, created_at = now() + interval '1 hour' WHERE id = $1`, second, c.host)
	c.settle(second, compute.VMStopped, compute.TaskNone)
	got = ask("")
	require.Equal(t, true, got.get("dry_run", "servers", 1, "succeeds"), got.body)
	require.Equal(t, "migrate", got.get("dry_run", "servers", 1, "action"))
	require.Empty(t, got.get("dry_run", "servers", 1, "keys"), "a server that is off needs none")
	c.exec(`UPDATE hosts SET memory_mb = (SELECT (flavor ->> 'memory_mb')::bigint * 3 / 2 FROM servers WHERE id = $1) WHERE name = 'node-2'`, id)
	got = ask("")
	require.Equal(t, true, got.get("dry_run", "servers", 0, "succeeds"), got.body)
	require.Contains(t, got.get("dry_run", "servers", 1, "refusals", 0, "message"), compute.NoValidHost)
	c.exec(`UPDATE hosts SET last_seen = now() - interval '1 hour' WHERE id = $1`, c.host)
	require.Equal(t, "Host node-1 does not answer: what is on it cannot be moved.", ask("").get("dry_run", "refusals", 0, "message"))
}
