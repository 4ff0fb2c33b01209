package api_test

import (
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

// EE-33: a resize that would change how disks are encrypted is refused, and nothing
// is changed.
func TestResizeRefuses(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	c.addFlavor("large", nil)
	c.addFlavor("safe", map[string]string{"hw:ephemeral_encryption": "true"})
	id := c.active()
	own := c.row(id).Flavor
	ask := func(as who, flavor string) answer {
		return c.act(t, as, id, `{"resize": {"flavorRef": "`+flavor+`"}}`, at("2.90"))
	}
	ask(member, "safe").fails(409, "conflictingRequest", "Flavor "+own.Name+" and flavor flavor-safe differ in the encryption of disks (none and any format): "+
		"a resize does not encrypt, decrypt or convert disks. Make an image of the server and create a new one from it.")
	ask(member, own.ID).fails(400, "badRequest", "When resizing, instances must change flavor!")
	ask(member, "nope").fails(400, "badRequest", "Flavor nope could not be found.")
	c.addFlavor("small", nil)
	c.exec(`UPDATE flavors SET root_gb = 0 WHERE id = 'small'`)
	ask(member, "small").fails(400, "badRequest", "Server disk was unable to be resized because: Resize to zero disk flavor is not allowed.")
	c.exec(`UPDATE flavors SET root_gb = 1, ephemeral_gb = 0 WHERE id = 'small'`)
	ask(member, "small").fails(400, "badRequest", "Server disk was unable to be resized because: Unable to resize disk down.")
	c.exec(`UPDATE hosts SET forced_down = true`)
	ask(member, "large").fails(409, "conflictingRequest", "Service is unavailable at this time.")
	c.exec(`UPDATE hosts SET forced_down = false`)
	ask(reader, "large").ok(403)
	ask(stranger, "large").ok(404)
	require.Equal(t, own, c.row(id).Flavor)
	require.Equal(t, compute.TaskNone, c.row(id).TaskState)
}

// resize asks for a flavor that has more of everything.
func (c *cloud) resize(t *testing.T, by who, id string) answer {
	flavor := "larger-" + uuid.NewString()
	c.addFlavor(flavor, nil)
	c.exec(`UPDATE flavors SET root_gb = 8, vcpus = 4, memory_mb = 2048 WHERE id = $1`, flavor)
	return c.act(t, by, id, `{"resize": {"flavorRef": "`+flavor+`", "OS-DCF:diskConfig": "AUTO"}}`, at(extended))
}

// TPM-18: one that is off gets a vTPM as one that runs does, once the key manager and the object store were asked.
func TestResizeOfAServerThatIsOffAddsAVTPM(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.active()
	c.settle(id, compute.VMStopped, compute.TaskNone)
	c.addFlavor("with-tpm", map[string]string{"hw:tpm_version": "2.0"})
	c.act(t, member, id, `{"resize": {"flavorRef": "with-tpm"}}`, at("2.90")).ok(202)
}

// A resize takes what its flavor has more of the project's quota at once; so does a revert to a
// larger flavor. What a migration needs is there.
// TPM-08, TPM-41: a resize that adds a vTPM tries what it needs, as a create and a rebuild do; one that keeps it, or adds none, does not.
func TestTPM08ResizeTriesTheCloudFirst(t *testing.T) {
	t.Parallel()
	c := setupRebuild(t)
	c.addFlavor("with-tpm", map[string]string{"hw:tpm_version": "2.0"})
	c.addFlavor("other-tpm", map[string]string{"hw:tpm_version": "2.0"})
	c.exec(`UPDATE flavors SET memory_mb = memory_mb + 1 WHERE id = 'other-tpm'`)
	c.addFlavor("without", nil)
	id, with := c.active(), c.createAs(member, map[string]any{"flavorRef": "with-tpm"})
	c.settle(with, compute.VMActive, compute.TaskNone)
	resize := func(id, flavor string) answer {
		return c.act(t, member, id, `{"resize": {"flavorRef": "`+flavor+`"}}`, at("2.90"))
	}
	c.objects.answer = compute.Errorf(compute.Unavailable, "away")
	resize(id, "with-tpm").ok(503)
	c.objects.answer, c.keys.answer = nil, compute.Errorf(compute.Forbidden, "no")
	resize(id, "with-tpm").ok(403)
	require.Equal(t, compute.TaskNone, c.row(id).TaskState)
	c.objects.answer = compute.Errorf(compute.Unavailable, "away")
	resize(with, "other-tpm").ok(202)
	resize(id, "without").ok(202)
	c.settle(id, compute.VMActive, compute.TaskNone)
	c.keys.answer, c.objects.answer = nil, nil
	resize(id, "with-tpm").ok(202)
}

func TestResizeTakesQuota(t *testing.T) {
	t.Parallel()
	c := setupCloud(t, quotas(compute.Quota{Instances: 10, Cores: 4, MemoryMB: 1 << 20, DiskGB: compute.Unlimited}))
	id := c.active()
	other := c.active()
	c.resize(t, member, id).fails(403, "forbidden", "Quota exceeded for cores: Requested 3, but already used 2 of 4 cores")
	c.exec(`UPDATE servers SET deleted_at = now() WHERE id = $1`, other)
	c.resize(t, member, id).ok(202)
	require.Equal(t, 3, c.count(`SELECT reserved_vcpus FROM servers WHERE id = $1`, id))
	c.act(t, admin, id, `{"migrate": null}`, at("2.1")).fails(409, "conflictingRequest", "Cannot 'migrate' instance "+id+" while it is in task_state resize_prep")

	c.settle(id, compute.VMResized, compute.TaskNone)
	c.exec(`UPDATE servers SET former = jsonb_build_object('operation', 'req-x', 'host', (SELECT id FROM hosts LIMIT 1), 'flavor', jsonb_set(flavor, '{vcpus}', '9')) WHERE id = $1`, id)
	c.act(t, member, id, `{"revertResize": null}`, at("2.1")).fails(403, "forbidden", "Quota exceeded for cores: Requested 8, but already used 1 of 4 cores")
}

// A confirmation answers 204; what is not there cannot be decided on.
func TestDecideOnAMove(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.active()
	c.act(t, member, id, `{"confirmResize": null}`, at("2.1")).fails(409, "conflictingRequest", "Cannot 'confirmResize' instance "+id+" while it is in vm_state active")
	c.settle(id, compute.VMError, compute.TaskNone)
	c.act(t, member, id, `{"revertResize": null}`, at("2.1")).fails(409, "conflictingRequest", "Cannot 'revertResize' instance "+id+" while it is in vm_state error")
	c.settle(id, compute.VMResized, compute.TaskNone)
	require.Equal(t, 204, onceMoved(`{"confirmResize": null}`)(c, t, member, id).code)
	require.Equal(t, compute.TaskResizeConfirming, c.row(id).TaskState)
}

// What is not decided on is not changed by anything else, whatever the server's state was set to.
func TestNothingElseIsDoneWithAMovedServer(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.active()
	c.exec(`UPDATE servers SET former = jsonb_build_object('operation', 'req-x', 'host', (SELECT id FROM hosts LIMIT 1), 'flavor', flavor) WHERE id = $1`, id)
	for state, bodies := range map[compute.VMState][]string{
		compute.VMActive: {`{"os-stop": null}`, `{"shelve": null}`, `{"reboot": {"type": "HARD"}}`, `{"pause": null}`},
		compute.VMError:  {`{"reboot": {"type": "HARD"}}`, `{"os-stop": null}`},
	} {
		c.settle(id, state, compute.TaskNone)
		for _, body := range bodies {
			got := c.act(t, member, id, body, at("2.1")).ok(409)
			require.Contains(t, got.body, "neither confirmed nor reverted", "%s in %s", body, state)
		}
	}
	c.settle(id, compute.VMError, compute.TaskNone)
	for _, away := range []string{"forced_down = true", "last_seen = now() - interval '1 hour'"} { // what the server was is there alone
		c.exec(`UPDATE hosts SET ` + away)
		c.act(t, member, id, `{"revertResize": null}`, at("2.1")).fails(409, "conflictingRequest", "Service is unavailable at this time.")
		c.exec(`UPDATE hosts SET forced_down = false, last_seen = now()`)
	}
	c.act(t, member, id, `{"revertResize": null}`, at("2.1")).ok(202)
}

func TestMigrateRefuses(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.active()
	name := c.text(`SELECT name FROM hosts WHERE id = $1`, c.host)
	ask := func(as who, body, version string) answer {
		return c.act(t, as, id, `{"migrate": `+body+`}`, at(version))
	}
	ask(admin, `{"host": "`+name+`"}`, "2.56").fails(400, "badRequest", "Cannot migrate to the host where the server exists.")
	ask(admin, `{"host": "nowhere"}`, "2.56").fails(400, "badRequest", "Compute host nowhere could not be found.")
	ask(admin, `{"where": "x"}`, "2.56").ok(400)
	ask(admin, `{"host": ""}`, "2.56").ok(400)
	ask(member, `null`, "2.56").ok(403)
	require.Equal(t, compute.TaskNone, c.row(id).TaskState)
	ask(admin, `{"host": "nowhere"}`, "2.55").ok(202) // not looked at
	c.settle(id, compute.VMActive, compute.TaskNone)
	ask(admin, `{"host": null}`, "2.56").ok(202) // any
}

// A server that another host may still run is not started beside it.
func TestNoServerStartsBesideItself(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.active()
	c.settle(id, compute.VMStopped, compute.TaskNone)
	c.exec(`INSERT INTO ledger (id, kind, place, name, owner_kind, owner_id, operation_id, credential_id, project_id, user_id, state, blocked_by, try_at)
		VALUES (gen_random_uuid(), 'running_domain', gen_random_uuid()::text, 'instance-' || $1, 'server', $1::uuid, 'req-before', gen_random_uuid(), 'p', 'u', 'waiting', 'host', now())`, id)
	c.act(t, member, id, `{"os-start": null}`, at("2.1")).fails(409, "conflictingRequest",
		"Instance "+id+" may still run on a host that does not answer. Try again when that is back.")
	c.exec(`UPDATE ledger SET state = 'intended', blocked_by = '' WHERE kind = 'running_domain'`) // who started it was cut off
	c.act(t, member, id, `{"os-start": null}`, at("2.1")).ok(409)
	c.act(t, member, id, `{"shelve": null}`, at("2.1")).fails(409, "conflictingRequest",
		"Instance "+id+" may still run on a host that does not answer. Try again when that is back.")
	c.settle(id, compute.VMPaused, compute.TaskNone) // halted for a live migration of which the end is not known
	c.act(t, member, id, `{"unpause": null}`, at("2.1")).ok(409)
	c.act(t, admin, id, `{"os-migrateLive": {"host": null, "block_migration": "auto"}}`, at("2.30")).fails(409, "conflictingRequest",
		"Instance "+id+" may still run on a host that does not answer. Try again when that is back.")
	c.settle(id, compute.VMStopped, compute.TaskNone)

	c.exec(`UPDATE ledger SET kind = 'tpm_state', name = $1 || '.0123abcd', reference = 'undecided', state = 'waiting', blocked_by = 'error' WHERE kind = 'running_domain'`, id)
	waits := "The state of the vTPM of instance " + id + " is still to be put back on its host. Try again when that was done."
	c.act(t, member, id, `{"os-start": null}`, at("2.1")).fails(409, "conflictingRequest", waits)
	c.exec(`UPDATE servers SET former = '{"operation": "req-before"}' WHERE id = $1`, id)
	c.settle(id, compute.VMResized, compute.TaskNone) // a revert failed
	for _, action := range []string{"confirmResize", "revertResize"} {
		c.act(t, member, id, `{"`+action+`": null}`, at("2.1")).fails(409, "conflictingRequest", waits)
	}
	c.exec(`UPDATE servers SET former = NULL WHERE id = $1`, id)
	c.settle(id, compute.VMStopped, compute.TaskNone)
	c.act(t, member, id, `{"shelve": null}`, at("2.1")).fails(409, "conflictingRequest", waits)
	c.exec(`DELETE FROM ledger WHERE kind = 'tpm_state'`)
	c.act(t, member, id, `{"os-start": null}`, at("2.1")).ok(202)
}

// Migrations are listed with the keys of each version.
func TestMigrations(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.active()
	for i := range 3 {
		c.exec(`INSERT INTO migrations (uuid, operation_id, server_id, type, status, source, destination, old_flavor, new_flavor, project_id, user_id)
			VALUES (gen_random_uuid(), 'req-' || $2::int, $1, 'resize', CASE WHEN $2::int = 0 THEN 'error' ELSE 'finished' END, 'a', 'b', '1', 'large', 'p', 'u')`, id, i)
	}
	list := func(version, query string) []any {
		return c.do(t, admin, "GET", "/os-migrations"+query, "", at(version)).ok(200).get("migrations").([]any)
	}
	keys := func(m any) []string { return slices.Sorted(maps.Keys(m.(map[string]any))) }
	old := []string{"created_at", "dest_compute", "dest_host", "dest_node", "id", "instance_uuid", "new_instance_type_id", "old_instance_type_id",
		"source_compute", "source_node", "status", "updated_at"}
	require.Equal(t, old, keys(list("2.1", "")[0]))
	require.Subset(t, keys(list("2.23", "")[0]), []string{"migration_type"})
	require.NotContains(t, keys(list("2.58", "")[0]), "uuid")
	require.Subset(t, keys(list("2.80", "")[0]), []string{"uuid", "user_id", "project_id"})
	require.Len(t, list("2.1", "?status=error"), 1)
	require.Empty(t, list("2.80", "?user_id=nobody"))
	require.Empty(t, list("2.1", "?hidden=true"), "K1")
	require.Len(t, list("2.59", "?hidden=0"), 3)
	c.do(t, admin, "GET", "/os-migrations?hidden=maybe", "", at("2.1")).ok(400)
	c.do(t, admin, "GET", "/os-migrations?user_id=u&user_id=nobody", "", at("2.80")).ok(400)
	require.Empty(t, list("2.1", "?instance_uuid="+uuid.NewString()))
	first := list("2.59", "?limit=2")
	require.Len(t, first, 2)
	marker := first[1].(map[string]any)["uuid"].(string)
	require.Len(t, list("2.59", "?limit=2&marker="+marker), 1)
	c.do(t, admin, "GET", "/os-migrations?marker="+uuid.NewString(), "", at("2.59")).ok(400)
	number := strconv.Itoa(int(first[0].(map[string]any)["id"].(float64)))
	path := "/servers/" + id + "/migrations/"
	c.do(t, admin, "GET", path+number, "", at("2.23")).fails(404, "itemNotFound", "Migration "+number+" for server "+id+" is not live-migration.")
	c.do(t, admin, "DELETE", path+number, "", at("2.24")).ok(400)
	c.do(t, admin, "POST", path+number+"/action", `{"force_complete": null}`, at("2.22")).ok(400)
	c.do(t, admin, "GET", path+"nonsense", "", at("2.23")).ok(404)
}
