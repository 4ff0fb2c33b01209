package api_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

// keptInImages says that images keep a server's disks.
func (c *cloud) keptInImages(id string) {
	c.exec(`UPDATE server_disks SET shelved = jsonb_build_object('image', $2::text, 'size_bytes', 1, 'sha256', 'x') WHERE server_id = $1`, id, uuid.NewString())
}

const unshelveFirst = ". Unshelve it first; where its status does not allow that, an administrator sets it to ERROR."

// A server that was set to ERROR, or ACTIVE, while it is shelved can be unshelved and deleted.
// Whatever else would begin from there is refused, and says why.
func TestShelvedServerWhoseStateWasReset(t *testing.T) {
	t.Parallel()
	c := setupRebuild(t)
	id := c.lockedUp("user")
	c.settle(id, compute.VMError, compute.TaskNone)
	c.act(t, member, id, `{"unshelve": null}`).fails(409, "conflictingRequest", "Cannot 'unshelve' instance "+id+" while it is in vm_state error")

	c.keptInImages(id)
	hard, stop := `{"reboot": {"type": "HARD"}}`, `{"os-stop": null}`
	for _, host := range []string{"host_id", "NULL"} {
		c.settle(id, compute.VMError, compute.TaskNone)
		c.exec(`UPDATE servers SET host_id = `+host+` WHERE id = $1`, id)
		began := len(c.starter.ops())
		c.act(t, member, id, hard).fails(409, "conflictingRequest", "Cannot 'reboot' instance "+id+" while it is shelved"+unshelveFirst)
		c.act(t, member, id, stop).fails(409, "conflictingRequest", "Cannot 'stop' instance "+id+" while it is shelved"+unshelveFirst)
		require.Len(t, c.starter.ops(), began)
		got := c.act(t, member, id, `{"unshelve": null}`)
		require.Equal(t, 202, got.code, got.body)
	}
	c.settle(id, compute.VMActive, compute.TaskNone)
	c.exec(`UPDATE servers SET host_id = NULL WHERE id = $1`, id)
	c.act(t, member, id, stop).fails(409, "conflictingRequest", "Cannot 'stop' instance "+id+" while it is shelved"+unshelveFirst)
	c.act(t, member, id, `{"shelve": null}`).fails(409, "conflictingRequest", "Cannot 'shelve' instance "+id+" while it is shelved"+unshelveFirst)
	got := c.do(t, member, "DELETE", "/servers/"+id, "")
	require.Equal(t, 204, got.code, got.body)
}

// N1: a server whose vTPM has no state that could be kept is not shelved: that is told at once, and by a dry run.
func TestN1AShelveOfAServerWithoutStateOfItsTPM(t *testing.T) {
	t.Parallel()
	c, id, _ := moving(t, "user")
	c.exec(`INSERT INTO server_system_metadata (server_id, key, value) VALUES ($1, $2, 'yes')`, id, compute.SystemNewTPM)
	began := len(c.starter.ops())
	const why = " has no state that could be kept: it has not been started since it was evacuated or resized. Start it first."
	c.act(t, member, id, `{"shelve": null}`).fails(409, "conflictingRequest", "The vTPM of server "+id+why)
	told := c.dryRun(t, member, id, `{"shelve": null}`).ok(200)
	require.Equal(t, false, told.get("dry_run", "succeeds"))
	require.Contains(t, told.body, why)
	require.Len(t, c.starter.ops(), began)
	c.exec(`DELETE FROM server_system_metadata WHERE server_id = $1 AND key = $2`, id, compute.SystemNewTPM)
	require.Equal(t, 202, c.act(t, member, id, `{"shelve": null}`).code)
}

// Where a server is to be can be said from 2.77 on, its host from 2.91 on; who says something before 2.91 names a
// zone. A host is an administrator's to name.
func TestWhereAServerIsUnshelved(t *testing.T) {
	t.Parallel()
	c := setupRebuild(t)
	id := c.lockedUp("user")
	c.keptInImages(id)
	ask := func(as who, target, version string) answer {
		c.settle(id, compute.VMShelvedOffloaded, compute.TaskNone)
		c.exec(`UPDATE servers SET host_id = NULL WHERE id = $1`, id)
		return c.act(t, as, id, `{"unshelve": `+target+`}`, at(version))
	}
	for _, version := range []string{"2.1", "2.76", "2.77", "2.90", "2.91"} {
		ask(member, `null`, version).ok(202)
	}
	ask(member, `{"availability_zone": 1}`, "2.76").ok(202) // not looked at
	for _, version := range []string{"2.77", "2.90"} {
		ask(member, `{"availability_zone": "nova"}`, version).ok(202)
		ask(member, `{}`, version).ok(400)
		ask(member, `{"availability_zone": null}`, version).ok(400)
		ask(admin, `{"availability_zone": "nova", "host": "node-1"}`, version).ok(400)
	}
	ask(member, `{}`, "2.91").ok(202)
	ask(member, `{"availability_zone": null}`, "2.91").ok(202)
	ask(member, `{"host": "node-1"}`, "2.91").ok(403)
	ask(admin, `{"availability_zone": "nova", "host": "node-1"}`, "2.91").ok(202)
	ask(admin, `{"host": "nowhere"}`, "2.91").fails(400, "badRequest", "Compute host nowhere could not be found.")
}
