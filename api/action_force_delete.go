package api

import (
	"strongroom/api/fault"
	"strongroom/api/policy"
	"strongroom/compute"
)

const (
	ruleForceDelete = "os_compute_api:os-deferred-delete:force"
	ruleRestore     = "os_compute_api:os-deferred-delete:restore"
)

// forceDeleteAction deletes a server at once. Every delete does: none is deferred.
func (a *API) forceDeleteAction() Resource {
	return Resource{
		Rules: policy.Rules{ruleForceDelete: policy.ProjectMemberOrAdmin},
		Routes: []Route{actionRoute("forceDelete", bare("forceDelete"), func(r *Request) (any, error) {
			return a.beginDelete(r, ruleForceDelete)
		})},
	}
}

// restoreAction would take back a deferred delete. No server is ever in that state.
func (a *API) restoreAction() Resource {
	restore := actionRoute("restore", bare("restore"), func(r *Request) (any, error) {
		row, err := a.findServer(r, ruleRestore)
		if err != nil {
			return nil, err
		}
		s := row.Server
		if s.TaskState != compute.TaskNone {
			return nil, fault.Conflict("Cannot 'restore' instance %s while it is in task_state %s", s.ID, s.TaskState)
		}
		return nil, fault.Conflict("Cannot 'restore' instance %s while it is in vm_state %s", s.ID, s.VMState)
	})
	restore.Refused = "Deletes are not deferred: none can be taken back."
	return Resource{
		Rules:  policy.Rules{ruleRestore: policy.ProjectMemberOrAdmin},
		Routes: []Route{restore},
	}
}
