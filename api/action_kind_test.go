package api_test

import (
	"cmp"
	"context"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/api"
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
	compute.OpStart:   {member, action(`{"os-start": null}`)},
	compute.OpStop:    {member, action(`{"os-stop": null}`)},
	compute.OpReboot:  {member, action(`{"reboot": {"type": "SOFT"}}`)},
	compute.OpPause:   {member, action(`{"pause": null}`)},
	compute.OpUnpause: {member, action(`{"unpause": null}`)},
	compute.OpSuspend: {member, func(c *cloud, t *testing.T, by who, id string) answer {
		c.exec(`UPDATE server_disks SET encrypted = false, encryption_format = '', encryption_secret_uuid = NULL WHERE server_id = $1`, id)
		return action(`{"suspend": null}`)(c, t, by, id)
	}},
	compute.OpResume:       {member, action(`{"resume": null}`)},
	compute.OpCrashDump:    {member, action(`{"trigger_crash_dump": null}`)},
	compute.OpCreateImage:  {member, action(`{"createImage": {"name": "copy"}}`)},
	compute.OpCreateBackup: {member, action(`{"createBackup": {"name": "copy", "backup_type": "daily", "rotation": 1}}`)},
	compute.OpRebuild: {member, func(c *cloud, t *testing.T, by who, id string) answer {
		return c.rebuild(t, by, id, c.imageOf(map[string]string{"hw_ephemeral_encryption": "false"}), "", "2.1")
	}},
	compute.OpRotateKeys: {member, action(`{"rotateKeys": null}`)},
	compute.OpShareAttach: {member, func(c *cloud, t *testing.T, by who, id string) answer {
		c.canShare()
		c.exec(`DELETE FROM server_shares WHERE server_id = $1`, id)
		return c.attach(t, by, id, goodShare)
	}},
	compute.OpShareDetach: {member, func(c *cloud, t *testing.T, by who, id string) answer {
		c.exec(`DELETE FROM server_shares WHERE server_id = $1`, id)
		c.hasShare(id, goodShare, compute.ShareInactive)
		return c.do(t, by, "DELETE", "/servers/"+id+"/shares/"+goodShare, "", at("2.97"))
	}},
	compute.OpInterfaceAttach: {member, func(c *cloud, t *testing.T, by who, id string) answer {
		c.starter.ended = func(context.Context, compute.Operation) (*compute.Error, error) {
			c.gets(id, compute.PortID{UUID: uuid.New()})
			return nil, nil
		}
		return c.do(t, by, "POST", "/servers/"+id+"/os-interface", `{"interfaceAttachment": {"net_id": "`+networkID+`"}}`)
	}},
	compute.OpInterfaceDetach: {member, func(c *cloud, t *testing.T, by who, id string) answer {
		port := compute.PortID{UUID: uuid.New()}
		c.gets(id, port)
		return c.do(t, by, "DELETE", "/servers/"+id+"/os-interface/"+port.String(), "")
	}},
	compute.OpRescue:   {member, action(`{"rescue": null}`)},
	compute.OpUnrescue: {member, action(`{"unrescue": null}`)},

	compute.OpShelve:        {member, action(`{"shelve": null}`)},
	compute.OpShelveOffload: {admin, action(`{"shelveOffload": null}`)},
	compute.OpUnshelve:      {member, action(`{"unshelve": null}`)},

	compute.OpResize: {member, func(c *cloud, t *testing.T, by who, id string) answer { return c.resize(t, by, id) }},
	compute.OpEvacuate: {admin, func(c *cloud, t *testing.T, by who, id string) answer {
		c.exec(`UPDATE hosts SET forced_down = true, last_seen = now() - interval '1 hour' WHERE id = $1`, c.host)
		return action(`{"evacuate": {}}`)(c, t, by, id)
	}},
	compute.OpMigrate:       {admin, action(`{"migrate": null}`)},
	compute.OpLiveMigrate:   {admin, action(`{"os-migrateLive": {"host": null, "block_migration": true}}`)},
	compute.OpConfirmResize: {member, onceMoved(`{"confirmResize": null}`)},
	compute.OpRevertResize:  {member, onceMoved(`{"revertResize": null}`)},

	compute.OpLock:       {member, action(`{"lock": null}`)},
	compute.OpUnlock:     {admin, action(`{"unlock": null}`)},
	compute.OpResetState: {admin, action(`{"os-resetState": {"state": "active"}}`)},
}

func action(body string) func(*cloud, *testing.T, who, string) answer {
	return func(c *cloud, t *testing.T, by who, id string) answer { return c.act(t, by, id, body, at(extended)) }
}

// onceMoved is action on a server that was resized before.
func onceMoved(body string) func(*cloud, *testing.T, who, string) answer {
	return func(c *cloud, t *testing.T, by who, id string) answer {
		c.exec(`UPDATE servers SET former = jsonb_build_object('operation', 'req-before', 'host', host_id, 'flavor', flavor) WHERE id = $1`, id)
		defer c.exec(`UPDATE servers SET former = NULL WHERE id = $1`, id)
		return action(body)(c, t, by, id)
	}
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
		switch a.Kind {
		case compute.OpCreate, compute.OpBackUpTPM, compute.OpImportLegacy: // there is no server yet; nobody asks for it; only the command line does
			continue
		}
		require.Contains(t, requests, a.Kind)
		t.Run(string(a.Kind), func(t *testing.T) {
			t.Parallel()
			c := setupRebuild(t, func(config *api.Config) {
				if a.Kind == compute.OpInterfaceAttach {
					config.Networks = &network{now: func([]compute.Network) ([]compute.Network, error) { return nil, nil }}
				}
			})
			id := c.lockedUp("user")
			if a.Kind == compute.OpUnshelve { // in ERROR it is for servers that are shelved
				c.keptInImages(id)
			}
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
				got.fails(409, "conflictingRequest", "Cannot '"+cmp.Or(a.Word, string(a.Kind))+"' instance "+id+" while it is in vm_state "+string(vm))
				require.Len(t, c.starter.ops(), began)
			}
			from := compute.VMActive
			if !a.Transition.Always {
				from = a.Transition.From[0]
			}
			c.settle(id, from, compute.TaskNone)
			c.exec(`UPDATE servers SET locked_by = 'owner' WHERE id = $1`, id)
			if got := ask.send(c, t, ask.by, id); a.EvenLocked || ask.by == admin { // whom no lock keeps
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
