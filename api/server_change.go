package api

import (
	"strongroom/api/fault"
	"strongroom/compute"
	"strongroom/schema"
)

func (a *API) showServer(r *Request) (any, error) {
	row, err := a.findServer(r, ruleShow)
	if err != nil {
		return nil, err
	}
	return map[string]any{"server": a.serverView(r, row.Server.Networks).shown(row)}, nil
}

// updateServer changes what is written down of a server; the server itself
// notices nothing.
func (a *API) updateServer(r *Request) (any, error) {
	var body struct {
		Server struct {
			Name        *string `json:"name"`
			Description *string `json:"description"`
			Hostname    *string `json:"hostname"`
			DiskConfig  *string `json:"OS-DCF:diskConfig"`
			AccessIPv4  *string `json:"accessIPv4"`
			AccessIPv6  *string `json:"accessIPv6"`
		} `json:"server"`
	}
	if err := r.Decode(&body); err != nil {
		return nil, err
	}
	row, err := a.findServer(r, ruleUpdate)
	if err != nil {
		return nil, err
	}
	in := body.Server
	rows, err := a.db.UpdateServer(r.Context(), schema.UpdateServerParams{
		ID: row.Server.ID, Name: in.Name, Hostname: in.Hostname, Describe: r.Has("server", "description"), Description: in.Description,
		DiskConfig: in.DiskConfig, AccessIPv4: in.AccessIPv4, AccessIPv6: shortAddress(in.AccessIPv6),
	})
	if err != nil {
		return nil, err
	}
	if rows == 0 {
		return nil, noServer(r.Param("id"))
	}
	if row, err = a.findServer(r, ruleUpdate); err != nil {
		return nil, err
	}
	return map[string]any{"server": a.serverView(r, row.Server.Networks).updated(row)}, nil
}

func (a *API) deleteServer(r *Request) (any, error) { return a.beginDelete(r, ruleDelete) }

// beginDelete begins a delete. It wins over whatever the server is doing; a
// second one finds the first under way and has nothing to add.
func (a *API) beginDelete(r *Request, rule string) (any, error) {
	for range takeAttempts {
		row, err := a.findServer(r, rule)
		if err != nil {
			return nil, err
		}
		s := row.Server
		if err := mayBegin(r, compute.Delete.Facts, s); err != nil {
			return nil, err
		}
		if s.TaskState == compute.Delete.Transition.Task {
			return nil, nil
		}
		op := operation(r, compute.Delete.Kind, s.ID, []byte("{}"))
		won, err := a.take(r, op, func(q *schema.Queries) (int64, error) {
			return q.DeleteServer(r.Context(), schema.TakeServerToDeleteParams{
				ID: s.ID, OperationID: op.ID, ThroughLock: r.IsAdmin(),
			})
		})
		if err != nil {
			return nil, err
		}
		if won {
			a.outbox.Launch(r.Context(), []compute.Operation{op})
			return nil, nil
		}
	}
	return nil, fault.Conflict("Instance %s is changed by other requests. Try again.", r.Param("id"))
}
