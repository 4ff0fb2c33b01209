package api_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/schema"
)

// asked is how a kind is asked for: by whom, and with which request on a server.
type asked struct {
	by   who
	send func(c *cloud, t *testing.T, by who, id string) answer
}

// requests has one for every kind that works on a server.
var requests = map[compute.OperationKind]asked{
	compute.OpDelete: {member, func(c *cloud, t *testing.T, by who, id string) answer {
		return c.do(t, by, "DELETE", "/servers/"+id, "")
	}},
	compute.OpStart:        {member, action(`{"os-start": null}`)},
	compute.OpStop:         {member, action(`{"os-stop": null}`)},
	compute.OpReboot:       {member, action(`{"reboot": {"type": "SOFT"}}`)},
	compute.OpPause:        {member, action(`{"pause": null}`)},
	compute.OpUnpause:      {member, action(`{"unpause": null}`)},
	compute.OpCreateImage:  {member, action(`{"createImage": {"name": "copy"}}`)},
	compute.OpCreateBackup: {member, action(`{"createBackup": {"name": "copy", "backup_type": "daily", "rotation": 1}}`)},
	compute.OpRebuild: {member, func(c *cloud, t *testing.T, by who, id string) answer {
		return c.rebuild(t, by, id, c.imageOf(nil), "", "2.1")
	}},
	compute.OpRotateKeys: {member, action(`{"rotateKeys": null}`)},
	compute.OpRescue:     {member, action(`{"rescue": null}`)},
	compute.OpUnrescue:   {member, action(`{"unrescue": null}`)},
	compute.OpLock:       {member, action(`{"lock": null}`)},
	compute.OpUnlock:     {admin, action(`{"unlock": null}`)},
	compute.OpResetState: {admin, action(`{"os-resetState": {"state": "active"}}`)},
}

func action(body string) func(*cloud, *testing.T, who, string) answer {
	return func(c *cloud, t *testing.T, by who, id string) answer { return c.act(t, by, id, body, at(extended)) }
}

var vmStates = []compute.VMState{
	compute.VMActive, compute.VMBuilding, compute.VMPaused, compute.VMSuspended, compute.VMStopped, compute.VMRescued,
	compute.VMResized, compute.VMError, compute.VMShelved, compute.VMShelvedOffloaded,
}

// C4: every kind can be asked for, and what the API does with a request is what the
// kind's action says: who is refused, the task_state, the row and its arguments.
func TestEveryKindIsOfferedAsItIsDeclared(t *testing.T) {
	t.Parallel()
	for _, a := range compute.Actions {
		if a.Kind == compute.OpCreate { // there is no server yet
			continue
		}
		require.Contains(t, requests, a.Kind)
		t.Run(string(a.Kind), func(t *testing.T) {
			t.Parallel()
			c := setupRebuild(t)
			id := c.lockedUp("user")
			began := len(c.starter.ops())
			ask := requests[a.Kind]
			accepted := func(got answer) {
				t.Helper()
				require.Less(t, got.code, 300, got.body)
				op, err := schema.New(c.pool).GetOperation(t.Context(), compute.OperationID(got.header.Get("X-Openstack-Request-Id")))
				require.NoError(t, err)
				require.Equal(t, a.Kind, op.Kind)
				require.Equal(t, a.InRequest, op.State == compute.OperationSucceeded)
				require.Equal(t, a.Transition.Task, c.row(id).TaskState)
				_, err = a.Keep(op.Arguments)
				require.NoError(t, err)
				if !a.InRequest {
					began++
				}
				require.Len(t, c.starter.ops(), began)
			}
			for _, vm := range vmStates {
				c.settle(id, vm, compute.TaskNone)
				got := ask.send(c, t, ask.by, id)
				if a.Transition.Always || slices.Contains(a.Transition.From, vm) {
					accepted(got)
					continue
				}
				got.fails(409, "conflictingRequest", "Cannot '"+string(a.Kind)+"' instance "+id+" while it is in vm_state "+string(vm))
				require.Len(t, c.starter.ops(), began)
			}
			from := compute.VMActive
			if !a.Transition.Always {
				from = a.Transition.From[0]
			}
			c.settle(id, from, compute.TaskNone)
			c.exec(`UPDATE servers SET locked_by = 'owner' WHERE id = $1`, id)
			if got := ask.send(c, t, ask.by, id); a.EvenLocked {
				accepted(got)
			} else {
				got.fails(409, "conflictingRequest", "Instance "+id+" is locked")
			}
		})
	}
}

// C4: a create has its task_state from its action, and no arguments.
func TestTheKindOfACreate(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	row := c.row(c.create(nil))
	require.Equal(t, compute.Create.Transition.Task, row.TaskState)
	ops := c.starter.ops()
	require.Equal(t, compute.Create.Kind, ops[0].Kind)
}
