package api

import (
	"encoding/json"
	"net/http"

	"strongroom/api/fault"
	"strongroom/api/policy"
	"strongroom/api/validation"
	"strongroom/compute"
	"strongroom/schema"
)

const actionPath = "/servers/:id/action"

// serverActions are the actions on a server that change or read it through
// POST /servers/{id}/action.
func (a *API) serverActions() Resource {
	on := func(key string, body validation.Versions, handle func(*Request) (any, error)) Route {
		return Route{
			Method: http.MethodPost, Path: actionPath, Action: key, Body: body, Status: http.StatusAccepted,
			Handle: handle,
		}
	}
	console := on("os-getConsoleOutput", consoleBody, a.consoleOutput)
	console.Status = http.StatusOK
	snapshot := on("createImage", createImageBody(false), a.createImage)
	snapshot.Extended = createImageBody(true)
	rotate := on("rotateKeys", rotateKeysBody, a.rotateKeys)
	rotate.Own = true
	rescue := on("rescue", rescueBody, a.rescueServer)
	rescue.Status = http.StatusOK
	return Resource{
		Rules: policy.Rules{
			ruleStart: policy.ProjectMemberOrAdmin, ruleStop: policy.ProjectMemberOrAdmin, ruleReboot: policy.ProjectMemberOrAdmin,
			ruleLock: policy.ProjectMemberOrAdmin, ruleUnlock: policy.ProjectMemberOrAdmin, ruleUnlockOverride: policy.Admin,
			ruleResetState: policy.Admin, ruleConsole: policy.ProjectMemberOrAdmin,
			ruleCreateImage: policy.ProjectMemberOrAdmin, ruleCreateBackup: policy.ProjectMemberOrAdmin,
			ruleResize: policy.ProjectMemberOrAdmin, ruleRebuild: policy.ProjectMemberOrAdmin,
			ruleRotateKeys: policy.ProjectMemberOrAdmin,
			ruleRescue:     policy.ProjectMemberOrAdmin, ruleUnrescue: policy.ProjectMemberOrAdmin,
		},
		Routes: []Route{
			on("os-start", bare("os-start"), a.startServer),
			on("os-stop", bare("os-stop"), a.stopServer),
			on("reboot", rebootBody, a.rebootServer),
			on("lock", lockBody, a.lockServer),
			on("unlock", bare("unlock"), a.unlockServer),
			on("os-resetState", resetBody, a.resetServer),
			snapshot,
			on("resize", resizeBody, a.resizeServer),
			on("createBackup", createBackupBody, a.createBackup),
			on("rebuild", rebuildBody, a.rebuildServer),
			rotate,
			console,
			rescue,
			on("unrescue", bare("unrescue"), a.unrescueServer),
		},
	}
}

// bare is the schema of an action without arguments: whatever stands there is
// not looked at.
func bare(key string) validation.Versions {
	return validation.Always(validation.Object([]string{key}, validation.Properties{key: {}}))
}

// action is an action that becomes an operation with a workflow.
type action struct {
	rule      string
	kind      compute.OperationKind
	task      compute.TaskState // while it is on its way
	hard      bool              // of a reboot
	arguments any

	evenLocked bool                  // a lock keeps nobody from it
	check      func(serverRow) error // what else keeps one from it; it may complete the arguments

	// accepted makes something between the commit and the start: what makes names, so
	// that it is on the ledger before.
	makes    func(compute.Operation) compute.Thing
	accepted func(compute.Operation, schema.Server)
}

// begins is how often an action tries to win its server from a state in which
// it may begin.
const begins = 5

// act begins an action. Of any number at once one wins: the row changes only
// from the very state in which the action was found to be allowed.
func (a *API) act(r *Request, act action) (any, error) {
	for range begins {
		row, err := a.findServer(r, act.rule)
		if err != nil {
			return nil, err
		}
		s := row.Server
		if err := checkLock(r, s); err != nil && !act.evenLocked {
			return nil, err
		}
		if err := compute.CheckAction(act.kind, situation(s), act.hard); err != nil {
			return nil, err
		}
		if act.check != nil {
			if err := act.check(row); err != nil {
				return nil, err
			}
		}
		arguments, err := json.Marshal(act.arguments)
		if err != nil {
			return nil, err
		}
		op := operation(r, act.kind, s.ID, arguments)
		won, err := a.take(r, op, func(q *schema.Queries) (int64, error) {
			rows, err := q.TakeServer(r.Context(), schema.TakeServerParams{
				ID: s.ID, Task: act.task, OperationID: op.ID, FromVmState: s.VMState, FromTaskState: s.TaskState,
				ThroughLock: act.evenLocked || r.IsAdmin(),
			})
			if err != nil || rows == 0 || act.makes == nil {
				return rows, err
			}
			return rows, q.IntendThing(r.Context(), schema.Intention(act.makes(op)))
		})
		if err != nil {
			return nil, err
		}
		if won {
			if act.accepted != nil {
				act.accepted(op, s)
			}
			a.launch(r.Context(), []compute.Operation{op})
			return nil, nil
		}
	}
	return nil, fault.Conflict("Instance %s is changed by other requests. Try again.", r.Param("id"))
}

func situation(s schema.Server) compute.Situation {
	return compute.Situation{Server: s.ID, VM: s.VMState, Task: s.TaskState, Launched: s.LaunchedAt != nil}
}

func operation(r *Request, kind compute.OperationKind, server compute.ServerID, arguments []byte) compute.Operation {
	return compute.Operation{
		ID: r.ID, ServerID: server, Kind: kind, State: compute.OperationAccepted, Credential: r.Credential(), Arguments: arguments,
	}
}

// take writes an operation down if its server could be won, and says whether.
func (a *API) take(r *Request, op compute.Operation, win func(*schema.Queries) (int64, error)) (won bool, err error) {
	err = a.transact(r.Context(), func(q *schema.Queries) error {
		rows, err := win(q)
		if err != nil || rows == 0 {
			return err
		}
		won = true
		return insertOperation(r, q, op)
	})
	return won && err == nil, err
}

// done writes down an operation that ends inside its request: there is a row in
// the trail and no workflow.
func (a *API) done(r *Request, kind compute.OperationKind, s schema.Server, change func(*schema.Queries) (int64, error)) (any, error) {
	op := operation(r, kind, s.ID, []byte("{}"))
	op.State = compute.OperationSucceeded
	won, err := a.take(r, op, change)
	if err == nil && !won {
		return nil, noServer(s.ID.String())
	}
	return nil, err
}
