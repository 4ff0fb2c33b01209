package api

import (
	"strongroom/api/fault"
	"strongroom/api/policy"
	"strongroom/api/validation"
	"strongroom/compute"
	"strongroom/schema"
)

const ruleResetState = "os_compute_api:os-admin-actions:reset_state"

var resetBody = validation.Always(validation.Object([]string{"os-resetState"}, validation.Properties{
	"os-resetState": validation.Object([]string{"state"}, validation.Properties{"state": validation.Enum("active", "error")}),
}))

func (a *API) resetStateAction() Resource {
	return Resource{
		Rules:  policy.Rules{ruleResetState: policy.Admin},
		Routes: []Route{actionRoute("os-resetState", resetBody, a.resetServer)},
	}
}

// resetServer says what a server is, whatever it does. An operation that runs
// loses the server and undoes its work. A live migration is aborted instead: its guest
// may run on the new host already, and would go with what is undone there.
func (a *API) resetServer(r *Request) (any, error) {
	var body struct {
		Reset struct{ State compute.VMState } `json:"os-resetState"`
	}
	if err := r.Decode(&body); err != nil {
		return nil, err
	}
	row, err := a.findServer(r, ruleResetState)
	if err != nil {
		return nil, err
	}
	if row.Server.TaskState == compute.TaskMigrating {
		return nil, fault.Conflict("Cannot 'os-resetState' instance %s while it is migrated live: abort that migration, or wait for its end.", row.Server.ID)
	}
	return a.done(r, compute.ResetState.Facts, row.Server, func(q *schema.Queries) (int64, error) {
		return q.ResetServerState(r.Context(), schema.ResetServerStateParams{ID: row.Server.ID, VMState: body.Reset.State})
	})
}
