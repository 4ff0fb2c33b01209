package api

import (
	"net/http"
	"strconv"

	"strongroom/api/fault"
	"strongroom/api/policy"
	"strongroom/api/validation"
)

// noAggregates says why none is made: what they are for is said by each host itself, and by flavors.
const noAggregates = "Aggregates are not kept here. A host's availability zone is in its own configuration (host.availability_zone), " +
	"and flavors and images ask for hosts by traits (trait:NAME=required)."

// noneOfThese says why one aggregate is never found.
const noneOfThese = "There are no aggregates, so that this is a 404."

// aggregates are groups of hosts. There are none; clients that show a
// hypervisor ask for them.
func (a *API) aggregates() Resource {
	const (
		root = "os_compute_api:os-aggregates:"
		one  = "/os-aggregates/:id"
	)
	out := Resource{
		Rules: policy.Rules{root + "index": policy.Admin, root + "create": policy.Admin},
		Routes: []Route{
			{Method: http.MethodGet, Path: "/os-aggregates", Rule: root + "index", Handle: func(*Request) (any, error) {
				return map[string]any{"aggregates": []any{}}, nil
			}},
			{Method: http.MethodPost, Path: "/os-aggregates", Rule: root + "create", Refused: noAggregates, Handle: func(*Request) (any, error) {
				return nil, fault.Forbidden(noAggregates)
			}},
		},
	}
	for _, of := range []struct {
		method, path, action, rule string
	}{
		{http.MethodGet, one, "", "show"},
		{http.MethodPut, one, "", "update"},
		{http.MethodDelete, one, "", "delete"},
		{http.MethodPost, one + "/action", "add_host", "add_host"},
		{http.MethodPost, one + "/action", "remove_host", "remove_host"},
		{http.MethodPost, one + "/action", "set_metadata", "set_metadata"},
	} {
		route := Route{Method: of.method, Path: of.path, Action: of.action, Rule: root + of.rule, Refused: noneOfThese, Handle: noAggregate}
		if of.action != "" {
			route.Body = validation.Always(validation.Object([]string{of.action}, validation.Properties{of.action: {"type": "object"}}))
		}
		out.Rules[route.Rule], out.Routes = policy.Admin, append(out.Routes, route)
	}
	const images = "compute:aggregates:images"
	out.Rules[images] = policy.Admin
	out.Routes = append(out.Routes, Route{
		Method: http.MethodPost, Path: one + "/images", Min: 81, Rule: images, Status: http.StatusAccepted, Refused: noneOfThese, Handle: noAggregate,
	})
	return out
}

func noAggregate(r *Request) (any, error) {
	id := r.Param("id")
	if _, err := strconv.ParseInt(id, 10, 32); err != nil {
		return nil, fault.BadRequest("id must be an integer")
	}
	return nil, fault.NotFound("Aggregate %s could not be found.", id)
}
