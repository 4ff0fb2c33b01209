package api

import (
	"strongroom/compute"
)

// drainView is how far the newest drain of a host is, for clients that name strongroom 1.0.
type drainView struct {
	Operation compute.OperationID    `json:"operation_id"`
	State     compute.OperationState `json:"state"`
	Moving    int64                  `json:"moving"`
	Moved     int64                  `json:"moved"`
	Left      int64                  `json:"left"`
	Failed    int64                  `json:"failed"`
	ToRemove  int64                  `json:"to_remove"` // things that the host is still to remove, of whatever server
}

// drains are the newest drains of hosts; nil of one that was never drained.
func (a *API) drains(r *Request) (map[compute.HostID]*drainView, error) {
	if !r.Extended {
		return nil, nil
	}
	rows, err := a.db.DrainsOfHosts(r.Context())
	out := map[compute.HostID]*drainView{}
	for _, row := range rows {
		out[compute.HostID{UUID: *row.SubjectID}] = &drainView{
			Operation: row.ID, State: row.State, Moving: row.Moving, Moved: row.Moved, Left: row.Kept, Failed: row.Failed, ToRemove: row.ToRemove,
		}
	}
	return out, err
}
