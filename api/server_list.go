package api

import (
	"github.com/google/uuid"

	"strongroom/api/fault"
	"strongroom/compute"
	"strongroom/schema"
)

// mostPageBytes is how much of the database a page of servers has, and one more: a thousand of them
// with all the metadata that they may have are a hundred times as much (H4).
const mostPageBytes = 4 << 20

// listed is a server as every list has it.
type listed struct {
	ID   compute.ServerID
	Name string
}

func (a *API) indexServers(r *Request) (any, error) {
	v := a.serverView(r)
	return a.listServers(r, "servers", ruleIndexAll, func(found []listed) ([]map[string]any, error) {
		items := make([]map[string]any, len(found))
		for i, s := range found {
			items[i] = v.basic(s)
		}
		return items, nil
	})
}

func (a *API) detailServers(r *Request) (any, error) {
	return a.listServers(r, "servers/detail", ruleDetailAll, func(found []listed) ([]map[string]any, error) {
		ids := make([]uuid.UUID, len(found))
		for i, s := range found {
			ids[i] = s.ID.UUID
		}
		rows, err := a.db.ListServers(r.Context(), schema.ListServersParams{Ids: ids, MostBytes: mostPageBytes})
		networks := make([][]compute.Network, len(rows))
		for i, row := range rows {
			networks[i] = row.Server.Networks
		}
		v, items := a.serverView(r, networks...), make([]map[string]any, len(rows))
		for i, row := range rows {
			items[i] = v.detail(serverRow(row))
		}
		return items, err
	})
}

// listServers answers a list. show gives those of a page, or the first of them: the others are
// on the next one.
func (a *API) listServers(r *Request, collection, ruleAll string, show func([]listed) ([]map[string]any, error)) (any, error) {
	q, none, err := a.serverQuery(r, ruleAll)
	if err != nil {
		return nil, err
	}
	limit := r.Limit()
	if none || limit == 0 {
		return Collection("servers", []map[string]any{}, nil), nil
	}
	found, err := a.search(r.Context(), r.ProjectID(), q, limit)
	if err != nil {
		return nil, err
	}
	items, err := show(found)
	if err != nil {
		return nil, err
	}
	var next []Link
	if n := len(items); n > 0 && (n == limit || n < len(found)) {
		next = r.nextAfter(collection, items[n-1]["id"].(string))
	}
	return Collection("servers", items, next), nil
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
