package api

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"strongroom/api/fault"
	"strongroom/api/policy"
	"strongroom/api/validation"
	"strongroom/compute"
	"strongroom/durable/outbox"
	"strongroom/schema"
)

const actionPath = "/servers/:id/action"

// serverActions are the actions on a server that change or read it through
// POST /servers/{id}/action.
func (a *API) serverActions() []Resource {
	moves := []Resource{ // each has a plan
		a.shelveAction(), a.shelveOffloadAction(), a.unshelveAction(), a.resizeAction(), a.migrateAction(),
		a.liveMigrateAction(), a.evacuateAction(), a.confirmResizeAction(), a.revertResizeAction(),
	}
	return append([]Resource{
		a.plainAction("os-start", "os_compute_api:servers:start", compute.Start),
		a.plainAction("os-stop", "os_compute_api:servers:stop", compute.Stop),
		a.rebootAction(),
		a.plainAction("pause", "os_compute_api:os-pause-server:pause", compute.Pause),
		a.plainAction("unpause", "os_compute_api:os-pause-server:unpause", compute.Unpause),
		a.suspendAction(),
		a.plainAction("resume", "os_compute_api:os-suspend-server:resume", compute.Resume),
		a.crashDumpAction(),
		a.changePasswordAction(),
		a.forceDeleteAction(),
		a.restoreAction(),
		a.lockAction(),
		a.unlockAction(),
		a.resetStateAction(),
		a.createImageAction(),
		a.createBackupAction(),
		a.rebuildAction(),
		a.rotateKeysAction(),
		a.consoleOutputAction(),
		a.addGroupAction(),
		a.removeGroupAction(),
		a.rescueAction(),
		a.plainAction("unrescue", "os_compute_api:os-unrescue", compute.Unrescue),
	}, append(moves, a.dryRunAction(moves))...)
}

// plainAction is an action that a member of the project may ask for, and whose
// request says nothing but its name.
func (a *API) plainAction(key, rule string, of compute.Action[compute.None]) Resource {
	return Resource{
		Rules: policy.Rules{rule: policy.ProjectMemberOrAdmin},
		Routes: []Route{actionRoute(key, bare(key), func(r *Request) (any, error) {
			return a.act(r, action{Facts: of.Facts, rule: rule, arguments: compute.None{}})
		})},
	}
}

// actionRoute is the route of an action: key names it in the body.
func actionRoute(key string, body validation.Versions, handle func(*Request) (any, error)) Route {
	return Route{
		Method: http.MethodPost, Path: actionPath, Action: key, Body: body, Status: http.StatusAccepted, Handle: handle,
	}
}

// bare is the schema of an action without arguments: whatever stands there is
// not looked at.
func bare(key string) validation.Versions {
	return validation.Always(validation.Object([]string{key}, validation.Properties{key: {}}))
}

// action is an action that becomes an operation with a workflow.
type action struct {
	compute.Facts
	rule      string
	arguments any // as the operations row keeps them

	check func(serverRow) error // what else keeps one from it; it may complete the arguments
	// grows says what it takes beyond what the server holds; asked after check.
	grows func(serverRow) (*growth, error)
	// plan is what a move of the server needs; has is what that has on the ledger. Asked after check.
	plan func(s compute.Server, has []compute.Thing) (compute.MovePlan, error)
	// early refuses what no waiting makes possible, before the request waits; check asks that again.
	early func(serverRow) error
	// isUnderWay says whether the server does just that already, so that nothing is to be done.
	isUnderWay func(serverRow) (bool, error)
	// also is written together with the operation, once the server is taken.
	also func(*schema.Queries) error
}

// takeAttempts is how often an action tries to win its server from a state in which
// it may begin.
const takeAttempts = 5

// act begins an action whose answer has no body.
func (a *API) act(r *Request, act action) (any, error) {
	if r.dry {
		return a.foresee(r, act)
	}
	_, err := a.launch(r, act)
	if errors.Is(err, errRepeated) {
		return nil, nil
	}
	return nil, err
}

// errRepeated is of a request that has nothing to add to what is under way.
var errRepeated = errors.New("it is under way")

// launch begins an action. Of any number at once one wins: the row changes only
// from the very state in which the action was found to be allowed. The others wait for their turn where Nova has them wait.
func (a *API) launch(r *Request, act action) (op compute.Operation, err error) {
	for tries := 0; tries < takeAttempts; {
		row, waited, err := a.findAtRest(r, act)
		if err != nil {
			return op, err
		}
		if !waited {
			tries++
		}
		s := row.Server
		more, err := a.admit(r, act, row)
		if err != nil {
			return op, err
		}
		arguments, err := json.Marshal(act.arguments)
		if err != nil {
			return op, err
		}
		op = operation(r, act.Kind, s.ID, arguments)
		won, err := a.takeFor(r, act, s, op, more)
		if err != nil {
			return op, err
		}
		if won {
			a.outbox.Launch(r.Context(), []compute.Operation{op})
			return op, nil
		}
	}
	return op, fault.Conflict("Instance %s is changed by other requests. Try again.", r.Param("id"))
}

// How long a request waits for the end of a backup of the server's vTPM, which takes a second, and how often it looks.
const (
	backupPatience = 5 * time.Second
	firstLook      = 100 * time.Millisecond
	lastLook       = time.Second
)

// patienceUntil is how long a request waits for the end of a task that it sees since then, before it is refused: one that nobody asked for, and those for
// which Nova sets no task_state, so that clients send several requests at once (T1).
func (a *API) patienceUntil(r *Request, task compute.TaskState, since time.Time) time.Time {
	switch task {
	case compute.TaskBackingUpTPM:
		return since.Add(backupPatience)
	case compute.TaskAttachingInterface, compute.TaskDetachingInterface, compute.TaskAttachingShare, compute.TaskDetachingShare:
		return r.began.Add(a.config.Patience)
	}
	return time.Time{}
}

// findAtRest is findServer once such a task is over, if it alone keeps the action from beginning, or takes too long. It says whether it waited.
// errRepeated: the task is what the action asks for.
func (a *API) findAtRest(r *Request, act action) (row serverRow, waited bool, err error) {
	var task compute.TaskState
	var since time.Time
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		if row, err = a.findServer(r, act.rule); err != nil {
			return row, waited, err
		}
		s := row.Server
		if s.TaskState != task || since.IsZero() {
			task, since = s.TaskState, time.Now()
		}
		if act.isUnderWay != nil {
			if under, err := act.isUnderWay(row); under || err != nil {
				return row, waited, cmp.Or(err, errRepeated)
			}
		}
		if !time.Now().Before(a.patienceUntil(r, task, since)) || !act.waitsFor(r, s) {
			return row, waited, nil
		}
		if !waited {
			if act.early != nil {
				if err := act.early(row); err != nil {
					return row, waited, err
				}
			}
			leave, ok := a.crowd.enter(s.ID.String(), s.ProjectID)
			if !ok {
				return row, waited, nil // as if it had waited long enough
			}
			defer leave()
		}
		waited = true
		select {
		case <-r.Context().Done():
			return row, waited, r.Context().Err()
		case <-time.After(pause):
		}
	}
}

// waitsFor says whether the server's task is all that keeps the action from beginning, as far as its record says.
func (act action) waitsFor(r *Request, s schema.Server) bool {
	if act.Facts.Check(situation(s)) == nil {
		return false
	}
	s.TaskState = compute.TaskNone
	return mayBegin(r, act.Facts, s) == nil
}

func situation(s schema.Server) compute.Situation {
	return compute.Situation{Server: s.ID, VM: s.VMState, Task: s.TaskState, Launched: s.LaunchedAt != nil}
}

// admit refuses an action that the server's states, or what else is known at once, forbid. It gives
// what the action takes more.
func (a *API) admit(r *Request, act action, row serverRow) (*growth, error) {
	if err := mayBegin(r, act.Facts, row.Server); err != nil {
		return nil, err
	}
	if err := a.checkShelved(r, act.Facts, row.Server); err != nil {
		return nil, err
	}
	if err := schema.MayBegin(r.Context(), a.db, act.Facts, row.Server.ID); err != nil {
		return nil, err
	}
	if err := checkShares(r.Context(), a.db, act.Facts, row.Server.ID); err != nil {
		return nil, err
	}
	if act.check != nil {
		if err := act.check(row); err != nil {
			return nil, err
		}
	}
	if act.grows == nil {
		return nil, nil
	}
	return act.grows(row)
}

// takeFor takes the server for an action, with what it takes more.
func (a *API) takeFor(r *Request, act action, s schema.Server, op compute.Operation, more *growth) (won bool, err error) {
	quota, project := more.limit()
	err = a.inTurn(r.Context(), quota, project, func() error {
		won, err = a.take(r, op, func(q *schema.Queries) (int64, error) {
			if err := more.check(r.Context(), q); err != nil {
				return 0, err
			}
			rows, err := q.TakeServer(r.Context(), schema.TakeServerParams{
				ID: s.ID, Task: act.Transition.Task, OperationID: op.ID, FromVmState: s.VMState, FromTaskState: s.TaskState,
				ThroughLock: act.EvenLocked || r.IsAdmin(),
			})
			if err != nil || rows == 0 {
				return rows, err
			}
			// An attachment may have come and gone since it was looked.
			if err := checkShares(r.Context(), q, act.Facts, s.ID); err != nil {
				return 0, err
			}
			if act.also != nil {
				if err := act.also(q); err != nil {
					return 0, err
				}
			}
			return rows, more.reserve(r.Context(), q, op)
		})
		return err
	})
	return won, err
}

// mayBegin refuses an action that the server's lock or its states forbid.
func mayBegin(r *Request, of compute.Facts, s schema.Server) error {
	if err := checkLock(r, s); err != nil && !of.EvenLocked {
		return err
	}
	if err := of.Check(situation(s)); err != nil {
		return err
	}
	if s.Former != nil && !of.WhileMoved() {
		return fault.Conflict("Instance %s was resized or migrated, which is neither confirmed nor reverted. Confirm or revert it first; "+
			"where its status does not allow that, an administrator sets it to ERROR.", s.ID)
	}
	return nil
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
		return outbox.Accept(r.Context(), q, op, r.sealed(op.Credential))
	})
	return won && err == nil, err
}

// done writes down an operation that ends inside its request: there is a row in
// the trail and no workflow.
func (a *API) done(r *Request, of compute.Facts, s schema.Server, change func(*schema.Queries) (int64, error)) (any, error) {
	if err := mayBegin(r, of, s); err != nil {
		return nil, err
	}
	op := operation(r, of.Kind, s.ID, []byte("{}"))
	op.State = compute.OperationSucceeded
	won, err := a.take(r, op, change)
	if err == nil && !won {
		return nil, noServer(s.ID.String())
	}
	return nil, err
}
