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

// A live migration is asked for as each version says; what cannot be is refused before an operation is
// written.
func TestLiveMigrateAction(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.active()
	ask := func(body, version string) answer {
		return c.act(t, admin, id, `{"os-migrateLive": `+body+`}`, at(version))
	}
	for version, bodies := range map[string][]string{
		"2.1":  {`{"host": null, "block_migration": "auto", "disk_over_commit": false}`, `{"host": null, "block_migration": true}`},
		"2.25": {`{"host": null, "block_migration": true, "disk_over_commit": false}`, `{"host": null, "block_migration": "auto", "force": true}`, `{"block_migration": true}`},
		"2.30": {`{"host": null, "block_migration": "auto", "force": true}`, `{"host": null, "block_migration": "perhaps"}`},
		"2.68": {`{"host": "a", "block_migration": "auto", "force": true}`, `{"host": "", "block_migration": "auto"}`, `null`},
	} {
		for _, body := range bodies {
			ask(body, version).ok(400)
		}
	}
	ask(`{"host": "nowhere", "block_migration": "auto"}`, "2.68").fails(400, "badRequest", "Compute host nowhere could not be found.")
	ask(`{"host": null, "block_migration": false}`, "2.68").ok(400)
	c.exec("UPDATE servers SET vm_state = 'stopped' WHERE id = $1", id)
	ask(`{"host": null, "block_migration": true}`, "2.68").fails(409, "conflictingRequest", "Cannot 'os-migrateLive' instance "+id+" while it is in vm_state stopped")
	c.exec("UPDATE servers SET vm_state = 'paused' WHERE id = $1", id)
	ask(`{"host": null, "block_migration": "auto"}`, "2.68").ok(202)
	require.Equal(t, "MIGRATING", c.do(t, admin, "GET", "/servers/"+id, "").ok(200).get("server").(map[string]any)["status"])
	ask(`{"host": null, "block_migration": "auto"}`, "2.68").fails(409, "conflictingRequest", "Cannot 'os-migrateLive' instance "+id+" while it is in task_state migrating")
}

// Those that are under way are shown, with their numbers; they can be aborted, or forced to complete, as
// their status and the version allow. The operation of one that has not begun is cancelled.
func TestLiveMigrationsUnderWay(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.active()
	add := func(op, status string) {
		c.exec(`INSERT INTO migrations (uuid, operation_id, server_id, type, status, source, destination, old_flavor, new_flavor, project_id, user_id, memory_total, disk_remaining)
			VALUES (gen_random_uuid(), $2, $1, 'live-migration', $3, 'a', 'b', '1', '1', 'p', 'u', 1000, 7)`, id, op, status)
	}
	add("req-old", "completed")
	op := string(c.starter.ops()[0].ID)
	add(op, "preparing")
	path := "/servers/" + id + "/migrations"
	list := c.do(t, admin, "GET", path, "", at("2.23")).ok(200).get("migrations").([]any)
	require.Len(t, list, 1)
	m := list[0].(map[string]any)
	require.Equal(t, []string{"created_at", "dest_compute", "dest_host", "dest_node", "disk_processed_bytes", "disk_remaining_bytes", "disk_total_bytes", "id",
		"memory_processed_bytes", "memory_remaining_bytes", "memory_total_bytes", "server_uuid", "source_compute", "source_node", "status", "updated_at"}, slices.Sorted(maps.Keys(m)))
	require.EqualValues(t, 1000, m["memory_total_bytes"])
	require.EqualValues(t, 7, m["disk_remaining_bytes"])
	one := path + "/" + strconv.Itoa(int(m["id"].(float64)))
	shown := c.do(t, admin, "GET", one, "", at("2.80")).ok(200).get("migration").(map[string]any)
	require.Subset(t, slices.Sorted(maps.Keys(shown)), []string{"project_id", "user_id", "uuid"})

	complete := func() answer { return c.do(t, admin, "POST", one+"/action", `{"force_complete": null}`, at("2.22")) }
	abort := func(version string) answer { return c.do(t, admin, "DELETE", one, "", at(version)) }
	wish := func(want string) {
		t.Helper()
		require.Equal(t, want, c.text("SELECT wish FROM migrations WHERE operation_id = $1", op))
	}
	complete().ok(400)
	abort("2.24").ok(400)
	wish("")
	c.exec("UPDATE migrations SET status = 'running' WHERE operation_id = $1", op)
	complete().ok(202)
	wish("force_complete")
	abort("2.24").ok(202)
	wish("abort")
	complete().ok(202)
	wish("abort")
	require.Empty(t, c.starter.cancelled, "its host hears of it")
	c.exec("UPDATE migrations SET status = 'preparing', wish = '' WHERE operation_id = $1", op)
	abort("2.65").ok(202)
	wish("abort")
	require.Equal(t, []compute.OperationID{compute.OperationID(op)}, c.starter.cancelled, "before it begins")
	c.exec("UPDATE migrations SET status = 'cancelled' WHERE operation_id = $1", op)
	abort("2.65").ok(400)
	c.do(t, admin, "GET", one, "", at("2.23")).ok(404)
	require.Empty(t, c.do(t, admin, "GET", path, "", at("2.23")).ok(200).get("migrations"))
}

// TPM-20, EE-30: whoever may not read the keys moves a running server if its host keeps them, all of them; if not,
// the answer is at once a 403 for those of disks and a 409 for that of a vTPM, and nothing began. Who may read them needs no host that keeps any.
func TestLiveMigrateByWhoMayNotReadTheKeys(t *testing.T) {
	t.Parallel()
	c, id, keys := moving(t, "user")
	var all []compute.SecretID
	for _, text := range keys {
		all = append(all, compute.SecretID{UUID: uuid.MustParse(text)})
	}
	ask := func() answer {
		return c.act(t, admin, id, `{"os-migrateLive": {"host": null, "block_migration": "auto"}}`, at("2.80"))
	}
	c.settle(id, compute.VMActive, compute.TaskNone)
	before := len(c.starter.ops())
	c.keys.unread = compute.Errorf(compute.Forbidden, "no")
	ask().fails(403, "forbidden", compute.NotKept(compute.ServerID{UUID: uuid.MustParse(id)}, compute.KeysOfDisks, all[0]).Error())
	c.consoles.kept = all[1:]
	ask().fails(403, "forbidden", compute.NotKept(compute.ServerID{UUID: uuid.MustParse(id)}, compute.KeysOfDisks, all[0]).Error())
	c.consoles.kept = all[:1]
	ask().fails(409, "conflictingRequest", compute.NotKept(compute.ServerID{UUID: uuid.MustParse(id)}, compute.KeyOfTPM, all[1]).Error())
	c.consoles.err = compute.Errorf(compute.Unavailable, "away")
	ask().fails(409, "conflictingRequest", "Server "+id+" cannot be moved while it runs: "+
		"whoever asks may not read its keys, and its host does not say whether it keeps them.")
	require.Len(t, c.starter.ops(), before)
	require.Equal(t, "ACTIVE", c.do(t, admin, "GET", "/servers/"+id, "").ok(200).get("server").(map[string]any)["status"])

	c.consoles.err, c.consoles.kept = nil, all
	ask().ok(202)
	require.Equal(t, "http://agent", c.consoles.url)
	c.settle(id, compute.VMActive, compute.TaskNone)
	c.keys.unread, c.consoles.kept, c.consoles.err = nil, nil, compute.Errorf(compute.Unavailable, "away")
	ask().ok(202)
	c.settle(id, compute.VMActive, compute.TaskNone)
	c.keys.unread = compute.Errorf(compute.Unavailable, "away") // the operation waits for it
	ask().ok(202)
}
