package api_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

// fenced is what the API must know to evacuate a host: it is silent, and forced down.
func (c *cloud) fenced(forcedDown bool, silent string) {
	c.exec(`UPDATE hosts SET forced_down = $2, last_seen = now() - $3::interval WHERE id = $1`, c.host, forcedDown, silent)
}

// What cannot be evacuated is refused before anything changes, with the reference's texts.
func TestEvacuateRefuses(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.active()
	name := c.text(`SELECT name FROM hosts WHERE id = $1`, c.host)
	ask := func(as who, body, version string) answer {
		return c.act(t, as, id, `{"evacuate": `+body+`}`, at(version))
	}
	ask(admin, `{}`, "2.14").fails(400, "badRequest", "Compute service of "+name+" is still in use.")
	c.fenced(true, "1 second")
	ask(admin, `{}`, "2.14").fails(400, "badRequest", "Compute service of "+name+" is still in use. It is forced down and still reports itself: stop it and its guests first.")
	c.fenced(false, "1 hour")
	require.Contains(t, ask(admin, `{}`, "2.14").ok(400).body, "Compute service of "+name+" is still in use. It does not report itself, and its guests may run nevertheless: fence the host")
	c.exec(`UPDATE hosts SET fence_after = 4000 WHERE id = $1`, c.host)
	require.Contains(t, ask(admin, `{}`, "2.14").ok(400).body, "Compute service of "+name+" is still in use. It does not report itself, and its watchdog stops its guests: ask again in ")
	c.exec(`UPDATE hosts SET fence_after = 0 WHERE id = $1`, c.host)
	c.fenced(true, "1 hour")
	ask(member, `{}`, "2.14").ok(403)
	ask(stranger, `{}`, "2.14").ok(404)
	ask(admin, `{"host": "nowhere"}`, "2.14").fails(400, "badRequest", "Compute host nowhere not found.")
	ask(admin, `{"host": "`+name+`"}`, "2.95").fails(400, "badRequest", "The target host can't be the same one.")
	ask(admin, `{"onSharedStorage": true, "adminPass": "secret"}`, "2.1").fails(400, "badRequest", "admin password can't be changed on existing disk")
	ask(admin, `{"onSharedStorage": true}`, "2.1").fails(400, "badRequest", compute.InvalidShared)
	c.exec(`INSERT INTO hosts (id, name, agent_url, vcpus, memory_mb, disk_gb, last_seen, disk_storage) VALUES (gen_random_uuid(), 'peer', 'http://agent', 8, 8192, 100, now(), 'one')`)
	ask(admin, `{"onSharedStorage": true, "host": "peer"}`, "2.1").fails(400, "badRequest", compute.InvalidShared)
	c.exec(`UPDATE hosts SET disk_storage = 'one'`)
	ask(admin, `{"onSharedStorage": false, "host": "peer"}`, "2.13").fails(400, "badRequest", compute.InvalidShared)
	ask(admin, `{"force": true}`, "2.29").fails(400, "badRequest", "Can't force to a non-provided destination")
	for version, bodies := range map[string][]string{
		"2.1":  {`{}`, `{"onSharedStorage": "perhaps"}`, `{"onSharedStorage": false, "force": true}`, `null`},
		"2.14": {`{"onSharedStorage": false}`, `{"force": true}`},
		"2.29": {`{"force": "perhaps"}`, `{"host": ""}`, `{"onSharedStorage": false}`},
		"2.68": {`{"host": "x", "force": true}`},
		"2.95": {`{"host": "x", "force": false}`, `{"where": "x"}`},
	} {
		for _, body := range bodies {
			ask(admin, body, version).ok(400)
		}
	}
	require.Equal(t, compute.TaskNone, c.row(id).TaskState)
	c.settle(id, compute.VMPaused, compute.TaskNone)
	ask(admin, `{}`, "2.14").fails(409, "conflictingRequest", "Cannot 'evacuate' instance "+id+" while it is in vm_state paused")
	c.settle(id, compute.VMError, compute.TaskNone)
	c.exec(`UPDATE servers SET host_id = NULL WHERE id = $1`, id)
	ask(admin, `{}`, "2.14").fails(409, "conflictingRequest", "Instance "+id+" is on no host.")
}

// Before 2.14 the answer has a password, which is kept nowhere. From 2.95 on the server stays off.
func TestEvacuate(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	c.exec(`INSERT INTO hosts (id, name, agent_url, vcpus, memory_mb, disk_gb, last_seen) VALUES ($1, 'node-2', 'http://agent', 8, 8192, 100, now())`, uuid.New())
	to := c.text(`SELECT id::text FROM hosts WHERE name = 'node-2'`)
	for _, v := range []struct {
		version, body, answer, arguments string
	}{
		{"2.1", `{"onSharedStorage": "False", "adminPass": "secret"}`, `{"adminPass":"secret"}`, `{"shared": false}`},
		{"2.14", `{"adminPass": "secret"}`, "", `{}`},
		{"2.29", `{"host": "node-2", "force": true}`, "", `{"host": "` + to + `"}`},
		{"2.68", `{"host": "node-2"}`, "", `{"host": "` + to + `"}`},
		{"2.95", `{}`, "", `{"stopped": true}`},
	} {
		c.fenced(false, "0 seconds")
		id := c.active()
		c.fenced(true, "1 hour")
		got := c.act(t, admin, id, `{"evacuate": `+v.body+`}`, at(v.version)).ok(200)
		require.Equal(t, v.answer, strings.TrimSpace(got.body), v.version)
		require.Equal(t, compute.TaskRebuilding, c.row(id).TaskState)
		require.JSONEq(t, v.arguments, c.text(`SELECT arguments::text FROM operations WHERE server_id = $1 AND kind = 'evacuate'`, id))
	}
	c.fenced(false, "0 seconds")
	id := c.active()
	c.exec(`UPDATE hosts SET fence_after = 60, last_seen = now() - interval '150 seconds' WHERE id = $1`, c.host)
	c.act(t, admin, id, `{"evacuate": {}}`, at("2.14")).ok(200) // its watchdog has stopped its guests
	c.exec(`UPDATE hosts SET fence_after = 0 WHERE id = $1`, c.host)
	id = c.onFenced()
	got := c.act(t, admin, id, `{"evacuate": {"onSharedStorage": false}}`, at("2.13")).ok(200)
	var made struct{ AdminPass string }
	require.NoError(t, json.Unmarshal([]byte(got.body), &made))
	require.Len(t, made.AdminPass, 12)
}

// A server is evacuated though the state of its vTPM waits to be put back on its dead host, where it
// is lost; but not while another host may run it.
func TestEvacuateWhileTheVTPMIsToBePutBack(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.onFenced()
	c.exec(`INSERT INTO ledger (id, kind, place, name, owner_kind, owner_id, operation_id, credential_id, project_id, user_id, state, blocked_by, try_at, reference)
		VALUES (gen_random_uuid(), 'tpm_state', $2, $1 || '.0123abcd', 'server', $1::uuid, 'req-before', gen_random_uuid(), 'p', 'u', 'waiting', 'host', now(), 'undecided'),
			(gen_random_uuid(), 'running_domain', gen_random_uuid()::text, 'instance-' || $1, 'server', $1::uuid, 'req-before', gen_random_uuid(), 'p', 'u', 'waiting', 'host', now(), '')`, id, c.host)
	c.act(t, admin, id, `{"evacuate": {}}`, at("2.14")).fails(409, "conflictingRequest",
		"Instance "+id+" may still run on a host that does not answer. Try again when that is back.")
	c.exec(`DELETE FROM ledger WHERE kind = 'running_domain'`)
	c.act(t, admin, id, `{"evacuate": {}}`, at("2.14")).ok(200)
}

// The text of an operation that went well is shown as its action's message: what an evacuate lost.
func TestAnActionTellsWhatItCost(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.onFenced()
	got := c.act(t, admin, id, `{"evacuate": {}}`, at("2.14")).ok(200)
	request := got.header.Get("X-Openstack-Request-Id")
	c.exec(`UPDATE operations SET state = 'succeeded', message = 'The state of the vTPM was lost' WHERE id = $1`, request)
	for _, as := range []who{reader, admin} {
		shown := c.do(t, as, "GET", "/servers/"+id+"/os-instance-actions/"+request, "", at("2.51")).ok(200)
		require.Contains(t, shown.body, `"message":"The state of the vTPM was lost"`)
	}
}

// onFenced is a server whose host is fenced since.
func (c *cloud) onFenced() string {
	c.fenced(false, "0 seconds")
	id := c.active()
	c.fenced(true, "1 hour")
	return id
}
