package api

import (
	"net/http"

	"strongroom/api/fault"
	"strongroom/api/microversion"
	"strongroom/api/policy"
	"strongroom/api/validation"
	"strongroom/schema"
)

// hypervisors are the compute hosts, as operators look at them.
func (a *API) hypervisors() Resource {
	const (
		root       = "os_compute_api:os-hypervisors:"
		list       = root + "list"
		detail     = root + "list-detail"
		statistics = root + "statistics"
		show       = root + "show"
		uptime     = root + "uptime"
		search     = root + "search"
		servers    = root + "servers"
		path       = "/os-hypervisors"
	)
	return Resource{
		Rules: policy.Rules{
			list: policy.Admin, detail: policy.Admin, statistics: policy.Admin, show: policy.Admin,
			uptime: policy.Admin, search: policy.Admin, servers: policy.Admin,
		},
		Routes: []Route{
			{Method: http.MethodGet, Path: path, Rule: list, Query: hypervisorListQuery, Handle: a.listHypervisors},
			{Method: http.MethodGet, Path: path + "/detail", Rule: detail, Query: hypervisorListQuery, Handle: a.detailHypervisors},
			{Method: http.MethodGet, Path: path + "/statistics", Max: 87, Rule: statistics, Handle: a.hypervisorStatistics},
			{Method: http.MethodGet, Path: path + "/:id", Rule: show, Query: hypervisorQuery, Handle: a.showHypervisor},
			{Method: http.MethodGet, Path: path + "/:id/uptime", Max: 87, Rule: uptime, Handle: a.hypervisorUptime},
			{Method: http.MethodGet, Path: path + "/:id/search", Max: 52, Rule: search, Handle: a.searchHypervisors},
			{Method: http.MethodGet, Path: path + "/:id/servers", Max: 52, Rule: servers, Handle: a.hypervisorServers},
		},
	}
}

var hypervisorListQuery = validation.Since(func(v microversion.Version) validation.Schema {
	p := validation.Properties{}
	if v < 33 {
		return validation.Open(p)
	}
	if v < 53 {
		p["limit"], p["marker"] = validation.Repeated(validation.NonNegative), validation.Repeated(validation.Text)
		return validation.Open(p)
	}
	return validation.Object(nil, validation.Properties{
		"limit": validation.Single(validation.NonNegative), "marker": validation.Single(validation.Text),
		"hypervisor_hostname_pattern": validation.Single(validation.DomainName), "with_servers": validation.Single(validation.BooleanOrText),
	})
}, 1, 33, 53)

var hypervisorQuery = validation.Since(func(v microversion.Version) validation.Schema {
	if v < 53 {
		return validation.Open(validation.Properties{})
	}
	return validation.Object(nil, validation.Properties{"with_servers": validation.Single(validation.BooleanOrText)})
}, 1, 53)

func (a *API) listHypervisors(r *Request) (any, error) {
	return a.hypervisorPage(r, "os-hypervisors", false)
}

func (a *API) detailHypervisors(r *Request) (any, error) {
	return a.hypervisorPage(r, "os-hypervisors/detail", true)
}

func (a *API) hypervisorPage(r *Request, collection string, detail bool) (any, error) {
	hosts, next, err := a.hypervisorsOf(r, collection)
	if err != nil {
		return nil, err
	}
	withServers := r.Version >= 53 && validation.True(r.Query.Get("with_servers"))
	views, err := a.viewHypervisors(r, hosts, detail, withServers)
	if err != nil {
		return nil, err
	}
	return Collection("hypervisors", views, next), nil
}

// hypervisorsOf gives the hosts that a request lists: those with a name, or a page.
func (a *API) hypervisorsOf(r *Request, collection string) ([]schema.HostsWithUseRow, []Link, error) {
	if r.Version >= 53 && r.Query.Has("hypervisor_hostname_pattern") {
		if r.Query.Has("limit") || r.Query.Has("marker") {
			return nil, nil, fault.BadRequest("Paging over hypervisors with the hypervisor_hostname_pattern query parameter is not supported.")
		}
		hosts, err := a.hypervisorsNamed(r, r.Query.Get("hypervisor_hostname_pattern"))
		return hosts, nil, err
	}
	hosts, err := a.db.HostsWithUse(r.Context(), nil)
	if err != nil || r.Version < 33 {
		return hosts, nil, err
	}
	if marker := r.Marker(); marker != "" {
		last := -1
		for i, h := range hosts {
			if hypervisorMarker(r, h) == marker {
				last = i
			}
		}
		if last < 0 {
			return nil, nil, fault.BadRequest("marker [%s] not found", marker)
		}
		hosts = hosts[last+1:]
	}
	hosts = hosts[:min(len(hosts), r.Limit())]
	if len(hosts) == 0 {
		return hosts, nil, nil
	}
	return hosts, r.Next(collection, len(hosts), hypervisorMarker(r, hosts[len(hosts)-1])), nil
}

func (a *API) showHypervisor(r *Request) (any, error) {
	h, err := a.hypervisor(r)
	if err != nil {
		return nil, err
	}
	withServers := r.Version >= 53 && validation.True(r.Query.Get("with_servers"))
	views, err := a.viewHypervisors(r, []schema.HostsWithUseRow{h}, true, withServers)
	if err != nil {
		return nil, err
	}
	return map[string]any{"hypervisor": views[0]}, nil
}

func (a *API) hypervisor(r *Request) (schema.HostsWithUseRow, error) {
	id := r.Param("id")
	return a.hostByID(r, id, fault.NotFound("Hypervisor with ID '%s' could not be found.", id))
}

func (a *API) hypervisorUptime(r *Request) (any, error) {
	h, err := a.hypervisor(r)
	if err != nil {
		return nil, err
	}
	if !a.hostUp(withoutUse(h)) {
		return nil, fault.BadRequest("Compute service of %s is unavailable at this time.", h.Name)
	}
	views, err := a.viewHypervisors(r, []schema.HostsWithUseRow{h}, false, false)
	if err != nil {
		return nil, err
	}
	views[0]["uptime"] = h.Uptime
	return map[string]any{"hypervisor": views[0]}, nil
}
