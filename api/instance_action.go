package api

import (
	"errors"
	"net/http"

	"github.com/jackc/pgx/v5"

	"strongroom/api/fault"
	"strongroom/api/microversion"
	"strongroom/api/policy"
	"strongroom/api/validation"
	"strongroom/compute"
	"strongroom/schema"
)

const (
	ruleActionList    = "os_compute_api:os-instance-actions:list"
	ruleActionShow    = "os_compute_api:os-instance-actions:show"
	ruleActionEvents  = "os_compute_api:os-instance-actions:events"
	ruleActionDetails = "os_compute_api:os-instance-actions:events:details"
)

// instanceActions is the trail of a server: its operations as the API has them.
func (a *API) instanceActions() Resource {
	const path = "/servers/:id/os-instance-actions"
	return Resource{
		Rules: policy.Rules{
			ruleActionList: policy.ProjectReaderOrAdmin, ruleActionShow: policy.ProjectReaderOrAdmin,
			ruleActionEvents: policy.Admin, ruleActionDetails: policy.Admin,
		},
		Routes: []Route{
			{Method: http.MethodGet, Path: path, Query: actionQuery, Handle: a.listActions},
			{Method: http.MethodGet, Path: path + "/:request_id", Handle: a.showAction},
		},
	}
}

var actionQuery = validation.Since(func(v microversion.Version) validation.Schema {
	p := validation.Properties{
		"limit": validation.Single(validation.NonNegative), "marker": validation.Single(validation.Text),
		"changes-since": validation.Single(validation.DateTime),
	}
	if v >= 66 {
		p["changes-before"] = validation.Single(validation.DateTime)
	}
	return validation.Object(nil, p)
}, 58, 66)

// trailOf finds the server whose trail is asked for; from 2.21 on a deleted
// server's trail can still be read.
func (a *API) trailOf(r *Request, rule string) (serverRow, error) {
	if r.Version < 21 {
		return a.findServer(r, rule)
	}
	return a.seekServer(r, rule)
}

func (a *API) listActions(r *Request) (any, error) {
	row, err := a.trailOf(r, ruleActionList)
	if err != nil {
		return nil, err
	}
	page, err := a.actionPage(r, row.Server.ID)
	if err != nil {
		return nil, err
	}
	operations := []schema.ServerOperationsRow{}
	if page.Most > 0 {
		if operations, err = a.db.ServerOperations(r.Context(), page); err != nil {
			return nil, err
		}
	}
	items := []map[string]any{}
	for _, op := range operations {
		items = append(items, viewAction(r.Version, schema.Operation(op)))
	}
	answer := map[string]any{"instanceActions": items}
	if n := len(operations); r.Version >= 58 && n > 0 {
		collection := "servers/" + row.Server.ID.String() + "/os-instance-actions"
		if next := r.Next(collection, n, string(operations[n-1].ID)); next != nil {
			answer["links"] = next
		}
	}
	return answer, nil
}

// actionPage reads the query, which has a meaning from 2.58 on.
func (a *API) actionPage(r *Request, server compute.ServerID) (schema.ServerOperationsParams, error) {
	page := schema.ServerOperationsParams{ServerID: server, Most: MaxLimit}
	if r.Version < 58 {
		return page, nil
	}
	page.Most = int32(r.Limit())
	if marker := r.Marker(); marker != "" {
		op, err := a.db.ServerOperation(r.Context(), schema.ServerOperationParams{ID: compute.OperationID(marker), ServerID: server})
		if errors.Is(err, pgx.ErrNoRows) {
			return page, fault.BadRequest("Marker %s could not be found.", marker)
		}
		if err != nil {
			return page, err
		}
		page.Below = &op.Number
	}
	var err error
	page.Since, page.Until, err = changesBetween(r)
	return page, err
}

func (a *API) showAction(r *Request) (any, error) {
	row, err := a.trailOf(r, ruleActionShow)
	if err != nil {
		return nil, err
	}
	id := compute.OperationID(r.Param("request_id"))
	op, err := a.db.ServerOperation(r.Context(), schema.ServerOperationParams{ID: id, ServerID: row.Server.ID})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fault.NotFound("Action %s not found", id)
	}
	if err != nil {
		return nil, err
	}
	view := viewAction(r.Version, op)
	see := eventView{
		version: r.Version, project: row.Server.ProjectID,
		traces:  r.AllowedOn(ruleActionEvents, row.Server.ProjectID, row.Server.UserID),
		details: r.AllowedOn(ruleActionDetails, row.Server.ProjectID, row.Server.UserID),
	}
	if r.Version >= 51 || see.traces {
		events, err := a.db.OperationEvents(r.Context(), []string{string(op.ID)})
		if err != nil {
			return nil, err
		}
		shown := []map[string]any{}
		for _, e := range events {
			shown = append(shown, see.event(e))
		}
		view["events"] = shown
	}
	return map[string]any{"instanceAction": view}, nil
}
