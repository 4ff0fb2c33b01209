package api

import (
	"strongroom/api/microversion"
	"strongroom/compute"
	"strongroom/schema"
)

// viewAction is an operation in the trail.
func viewAction(v microversion.Version, op schema.Operation) map[string]any {
	out := map[string]any{
		"action": op.Kind, "instance_uuid": op.ServerID.String(), "request_id": op.ID, "user_id": op.UserID,
		"project_id": op.ProjectID, "start_time": microseconds(&op.AcceptedAt), "message": nil,
	}
	if op.State == compute.OperationFailed || op.State == compute.OperationCancelled {
		out["message"] = "Error"
	} else if op.Message != nil && *op.Message != "" { // what it has cost, see compute.Server.TPMLost
		out["message"] = *op.Message
	}
	if v >= 58 {
		out["updated_at"] = microseconds(&op.UpdatedAt)
	}
	return out
}

// eventView shows the events of an operation to one caller.
type eventView struct {
	version microversion.Version
	project string // the server's
	traces  bool   // sees where and why a step failed
	details bool
}

func (v eventView) event(e schema.OperationEvent) map[string]any {
	out := map[string]any{
		"event": e.Event, "start_time": microseconds(&e.StartedAt), "finish_time": microseconds(e.FinishedAt), "result": e.Result,
	}
	if v.traces {
		out["traceback"] = e.Details
	}
	if v.version >= 62 {
		out["hostId"] = hostID(v.project, deref(e.Host))
		if v.traces {
			out["host"] = e.Host
		}
	}
	if v.version >= 84 && v.details {
		out["details"] = e.Details
	}
	return out
}
