package api

import (
	"github.com/google/uuid"

	"strongroom/api/fault"
	"strongroom/compute"
	"strongroom/schema"
)

func (a *API) indexServers(r *Request) (any, error) {
	v := a.serverView(r)
	return a.listServers(r, "servers", ruleIndexAll, v.basic)
}

func (a *API) detailServers(r *Request) (any, error) {
	v := a.serverView(r)
	return a.listServers(r, "servers/detail", ruleDetailAll, v.detail)
}

// listServers answers a list: one query for the page's ids, one for its rows.
func (a *API) listServers(r *Request, collection, ruleAll string, show func(serverRow) map[string]any) (any, error) {
	q, none, err := a.serverQuery(r, ruleAll)
	if err != nil {
		return nil, err
	}
	items := []map[string]any{}
	last := ""
	if limit := r.Limit(); !none && limit > 0 {
		rows, err := a.page(r, q, limit)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			items = append(items, show(serverRow(row)))
			last = row.Server.ID.String()
		}
	}
	return Collection("servers", items, r.Next(collection, len(items), last)), nil
}

func (a *API) page(r *Request, q *serverQuery, limit int) ([]schema.ListServersRow, error) {
	ids, err := a.search(r.Context(), r.ProjectID(), q, limit)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	return a.db.ListServers(r.Context(), ids)
}

// serverQuery reads a list's query string. none is set when nothing can match it.
func (a *API) serverQuery(r *Request, ruleAll string) (q *serverQuery, none bool, err error) {
	q = &serverQuery{}
	filters := serverFilters(r)
	everywhere, err := allProjects(r, filters, ruleAll)
	if err != nil {
		return nil, false, err
	}
	if !everywhere {
		filters["project_id"] = r.ProjectID()
		delete(filters, "tenant_id")
	}
	if none, err = q.byStatus(r, filters); none || err != nil {
		return q, none, err
	}
	if err := q.byTime(filters); err != nil {
		return nil, false, err
	}
	if err := q.byField(filters); err != nil {
		return nil, false, err
	}
	if err := q.order(r); err != nil {
		return nil, false, err
	}
	return q, false, a.after(r, q, everywhere)
}

// after begins the page behind the marker.
func (a *API) after(r *Request, q *serverQuery, everywhere bool) error {
	text := r.Marker()
	if text == "" {
		return nil
	}
	id, err := uuid.Parse(text)
	if err != nil {
		return noMarker(text)
	}
	row, err := a.db.GetServer(r.Context(), compute.ServerID{UUID: id})
	if err != nil || !everywhere && row.ProjectID != r.ProjectID() {
		return noMarker(text)
	}
	q.marker = &id
	return nil
}

func noMarker(marker string) error { return fault.BadRequest("marker [%s] not found", marker) }

// allProjects says whether the list reaches beyond the caller's project. Naming another
// project does not ask for it.
func allProjects(r *Request, filters map[string]string, rule string) (bool, error) {
	text, asked := filters["all_tenants"]
	delete(filters, "all_tenants")
	if asked && text != "" {
		yes, err := compute.ParseBool(text)
		if err != nil {
			return false, err
		}
		asked = yes
	}
	if !asked {
		return false, nil
	}
	return true, r.Enforce(rule)
}
