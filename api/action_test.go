package api_test

import (
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/schema"
)

func (c *cloud) row(id string) schema.Server {
	c.t.Helper()
	row, err := schema.New(c.pool).GetServer(c.t.Context(), compute.ServerID{UUID: uuid.MustParse(id)})
	require.NoError(c.t, err)
	return row
}

func TestActionsBeginOperations(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		body      string
		from      compute.VMState
		during    compute.TaskState
		kind      compute.OperationKind
		task      compute.TaskState
		arguments string
	}{
		{`{"os-start":null}`, compute.VMStopped, "", compute.OpStart, compute.TaskPoweringOn, `{}`},
		{`{"os-stop":null}`, compute.VMActive, "", compute.OpStop, compute.TaskPoweringOff, `{}`},
		{`{"os-stop":{}}`, compute.VMError, "", compute.OpStop, compute.TaskPoweringOff, `{}`},
		{`{"reboot":{"type":"SOFT"}}`, compute.VMActive, "", compute.OpReboot, compute.TaskRebooting, `{"hard":false}`},
		{`{"reboot":{"type":"hard"}}`, compute.VMStopped, "", compute.OpReboot, compute.TaskRebootingHard, `{"hard":true}`},
		{`{"reboot":{"type":"HARD"}}`, compute.VMActive, compute.TaskRebootStarted, compute.OpReboot, compute.TaskRebootingHard, `{"hard":true}`},
	} {
		t.Run(test.body, func(t *testing.T) {
			t.Parallel()
			c := setupCloud(t)
			id := c.active()
			c.settle(id, test.from, test.during)
			a := c.act(t, member, id, test.body).is(202, "")
			require.Empty(t, a.header.Get("Location"))
			ops := c.starter.ops()
			op := ops[len(ops)-1]
			require.Len(t, ops, 2)
			require.Equal(t, a.header.Get("x-openstack-request-id"), string(op.ID))
			require.Equal(t, test.kind, op.Kind)
			require.JSONEq(t, test.arguments, string(op.Arguments))
			row := c.row(id)
			require.Equal(t, test.task, row.TaskState)
			require.Equal(t, test.from, row.VMState)
			require.Equal(t, op.ID, row.CurrentOperation)
			stored, err := schema.New(c.pool).GetOperation(t.Context(), op.ID)
			require.NoError(t, err)
			require.Equal(t, compute.OperationAccepted, stored.State)
			require.JSONEq(t, test.arguments, string(stored.Arguments))
		})
	}
}

func TestActionsRefused(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	active, stopped, fresh := c.active(), c.active(), c.create(nil)
	c.settle(stopped, compute.VMStopped, compute.TaskNone)
	busy := c.active()
	c.settle(busy, compute.VMActive, compute.TaskPoweringOff)
	started := len(c.starter.ops())
	for _, test := range []struct {
		id, body string
		code     int
		fault    string
		message  string
	}{
		{active, `{"os-start":null}`, 409, "conflictingRequest", "Cannot 'start' instance " + active + " while it is in vm_state active"},
		{stopped, `{"os-stop":null}`, 409, "conflictingRequest", "Cannot 'stop' instance " + stopped + " while it is in vm_state stopped"},
		{busy, `{"os-stop":null}`, 409, "conflictingRequest", "Cannot 'stop' instance " + busy + " while it is in task_state powering-off"},
		{fresh, `{"reboot":{"type":"HARD"}}`, 409, "conflictingRequest", "Cannot 'reboot' instance " + fresh + " while it is in vm_state building"},
		{stopped, `{"reboot":{"type":"SOFT"}}`, 409, "conflictingRequest", "Cannot 'reboot' instance " + stopped + " while it is in vm_state stopped"},
		{active, `{"reboot":{"type":"WARM"}}`, 400, "badRequest",
			"Invalid input for field/attribute type. Value: WARM. 'WARM' is not one of ['HARD', 'Hard', 'hard', 'SOFT', 'Soft', 'soft']"},
		{active, `{"reboot":{}}`, 400, "badRequest", "Invalid input for field/attribute reboot. Value: {}. 'type' is a required property"},
		{active, `{"dance":null}`, 400, "badRequest", "There is no such action: dance"},
		{active, `{"resume":null}`, 409, "conflictingRequest", "Cannot 'resume' instance " + active + " while it is in vm_state active"},
		{active, `{"os-stop":null,"os-start":null}`, 400, "badRequest", "Additional properties are not allowed ('os-stop' was unexpected)"},
		{active, `{}`, 400, "badRequest", "Malformed request body"},
		{active, `[`, 400, "badRequest", "Malformed request body"},
		{active, ``, 400, "badRequest", "Malformed request body"},
		{uuid.Nil.String(), `{"os-stop":null}`, 404, "itemNotFound", "Instance " + uuid.Nil.String() + " could not be found."},
		{active, `{"os-resetState":{"state":"error"}}`, 403, "forbidden",
			"Policy doesn't allow os_compute_api:os-admin-actions:reset_state to be performed."},
	} {
		t.Run(test.body, func(t *testing.T) {
			c.act(t, member, test.id, test.body).fails(test.code, test.fault, test.message)
		})
	}
	require.Len(t, c.starter.ops(), started)
	require.Zero(t, c.count(`SELECT count(*) FROM operations WHERE kind <> 'create'`))
	require.Equal(t, compute.TaskNone, c.row(active).TaskState)
}

// TestOneOfManyActionsWins: of 50 at once on one server exactly one begins.
func TestOneOfManyActionsWins(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.active()
	codes := make([]int, 50)
	var all sync.WaitGroup
	for i := range codes {
		all.Go(func() {
			body := `{"os-stop":null}`
			if i%2 == 0 {
				body = `{"reboot":{"type":"SOFT"}}`
			}
			codes[i] = c.act(t, member, id, body).code
		})
	}
	all.Wait()
	counts := map[int]int{}
	for _, code := range codes {
		counts[code]++
	}
	require.Equal(t, map[int]int{202: 1, 409: 49}, counts)
	require.Equal(t, 1, c.count(`SELECT count(*) FROM operations WHERE kind <> 'create'`))
	ops := c.starter.ops()
	require.Len(t, ops, 2)
	require.Equal(t, ops[1].ID, c.row(id).CurrentOperation)
}

func TestDeleteServer(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.create(nil) // still being built: a delete wins
	codes := make([]int, 20)
	var all sync.WaitGroup
	for i := range codes {
		all.Go(func() { codes[i] = c.do(t, member, "DELETE", "/servers/"+id, "").code })
	}
	all.Wait()
	for _, code := range codes {
		require.Equal(t, 204, code)
	}
	ops := c.starter.ops()
	require.Len(t, ops, 2, "one delete, however often it was asked for")
	require.Equal(t, compute.OpDelete, ops[1].Kind)
	row := c.row(id)
	require.Equal(t, compute.TaskDeleting, row.TaskState)
	require.Equal(t, ops[1].ID, row.CurrentOperation)
	a := c.do(t, member, "GET", "/servers/"+id, "").ok(200)
	require.Equal(t, "deleting", a.get("server", "OS-EXT-STS:task_state"))
	c.act(t, member, id, `{"os-stop":null}`).ok(409)

	c.exec(`UPDATE servers SET vm_state = 'deleted', task_state = '', deleted_at = now() WHERE id = $1`, id)
	missing := "Instance " + id + " could not be found."
	c.do(t, member, "DELETE", "/servers/"+id, "").fails(404, "itemNotFound", missing)
	c.do(t, member, "GET", "/servers/"+id, "").fails(404, "itemNotFound", missing)
	c.do(t, member, "GET", "/servers/"+id+"/os-instance-actions", "", at("2.20")).fails(404, "itemNotFound", missing)
	require.Len(t, c.do(t, member, "GET", "/servers/"+id+"/os-instance-actions", "", at("2.21")).ok(200).get("instanceActions"), 2)
}

func TestLock(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.active()
	locked := "Instance " + id + " is locked"
	show := func(key string) any {
		return c.do(t, member, "GET", "/servers/"+id, "", at("2.73")).ok(200).get("server", key)
	}

	c.act(t, member, id, `{"lock":{"locked_reason":"mine"}}`, at("2.73")).is(202, "")
	require.Equal(t, true, show("locked"))
	require.Equal(t, "mine", show("locked_reason"))
	c.act(t, member, id, `{"os-stop":null}`).fails(409, "conflictingRequest", locked)
	c.do(t, member, "DELETE", "/servers/"+id, "").fails(409, "conflictingRequest", locked)
	c.do(t, member, "POST", "/servers/"+id+"/metadata", `{"metadata":{"a":"b"}}`).fails(409, "conflictingRequest", locked)
	c.act(t, member, id, `{"unlock":null}`).is(202, "")
	require.Equal(t, false, show("locked"))
	require.Nil(t, show("locked_reason"))
	c.act(t, member, id, `{"lock":{"locked_reason":""}}`, at("2.73")).ok(400)
	c.act(t, member, id, `{"lock":{"locked_reason":"x"}}`, at("2.72")).is(202, "")
	require.Nil(t, show("locked_reason"), "a version that has no reasons keeps none")

	foreign := c.createAs(stranger, nil)
	c.settle(foreign, compute.VMActive, compute.TaskNone)
	c.act(t, admin, foreign, `{"lock":null}`).is(202, "")
	c.act(t, stranger, foreign, `{"unlock":null}`).
		fails(403, "forbidden", "Policy doesn't allow os_compute_api:os-lock-server:unlock:unlock_override to be performed.")
	c.act(t, stranger, foreign, `{"lock":null}`).is(202, "")
	require.Equal(t, "admin", *c.row(foreign).LockedBy, "an owner's lock does not replace an administrator's")
	c.act(t, admin, foreign, `{"os-stop":null}`).is(202, "")
	c.act(t, admin, foreign, `{"unlock":null}`).is(202, "")
	trail := c.do(t, member, "GET", "/servers/"+id+"/os-instance-actions", "").ok(200)
	require.Equal(t, "lock", trail.get("instanceActions", 0, "action"))
	require.Equal(t, "unlock", trail.get("instanceActions", 1, "action"))
	for _, op := range c.starter.ops() {
		require.NotContains(t, []compute.OperationKind{compute.OpLock, compute.OpUnlock}, op.Kind)
	}
}

func TestResetState(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.create(nil)
	c.act(t, admin, id, `{"os-resetState":{"state":"error"}}`).is(202, "")
	row := c.row(id)
	require.Equal(t, []any{compute.VMError, compute.TaskNone, compute.OperationID("")}, []any{row.VMState, row.TaskState, row.CurrentOperation})
	c.act(t, admin, id, `{"os-resetState":{"state":"active"}}`).is(202, "")
	require.Equal(t, compute.VMActive, c.row(id).VMState)
	c.act(t, admin, id, `{"os-resetState":{"state":"paused"}}`).
		fails(400, "badRequest", "Invalid input for field/attribute state. Value: paused. 'paused' is not one of ['active', 'error']")
	require.Equal(t, 2, c.count(`SELECT count(*) FROM operations WHERE kind = 'resetState' AND state = 'succeeded' AND finished_at IS NOT NULL`))
	require.Len(t, c.starter.ops(), 1)
	c.settle(id, compute.VMActive, compute.TaskMigrating)
	c.act(t, admin, id, `{"os-resetState":{"state":"error"}}`).fails(409, "conflictingRequest",
		"Cannot 'os-resetState' instance "+id+" while it is migrated live: abort that migration, or wait for its end.")
	require.Equal(t, compute.TaskMigrating, c.row(id).TaskState)
}

func TestConsoleOutput(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.create(nil)
	ask := func(arguments string) answer { return c.act(t, member, id, `{"os-getConsoleOutput":`+arguments+`}`) }
	ask(`{}`).fails(409, "conflictingRequest", "Instance "+id+" is not ready")
	c.settle(id, compute.VMActive, compute.TaskNone)
	c.consoles.text = "boot\r\n\x1b[0mready\xff\n"
	ask(`{"length":"7"}`).is(200, `{"output":"boot\n[0mready\ufffd\n"}`)
	require.Equal(t, []any{"http://agent", 7}, []any{c.consoles.url, c.consoles.lines})
	for _, whole := range []string{`{}`, `{"length":null}`, `{"length":-1}`} {
		ask(whole).ok(200)
		require.Equal(t, -1, c.consoles.lines)
	}
	ask(`{"length":0}`).is(200, `{"output":""}`)
	ask(`{"length":-2}`).fails(400, "badRequest", "Invalid input for field/attribute length. Value: -2. -2 is less than the minimum of -1")
	ask(`{"length":"x"}`).ok(400)
	c.consoles.err = compute.Errorf(compute.NotFound, "none")
	ask(`{}`).fails(404, "itemNotFound", "Guest does not have a console available.")
	c.consoles.err = compute.Errorf(compute.Unavailable, "the host of server %s does not answer", id)
	ask(`{}`).fails(503, "serviceUnavailable", "the host of server "+id+" does not answer")
	c.act(t, reader, id, `{"os-getConsoleOutput":{}}`).ok(403)
}
