package api

import (
	"net/http"

	"strongroom/api/policy"
)

// aggregates are groups of hosts. There are none; clients that show a
// hypervisor ask for them.
func (a *API) aggregates() Resource {
	const list = "os_compute_api:os-aggregates:index"
	return Resource{
		Rules: policy.Rules{list: policy.Admin},
		Routes: []Route{
			{Method: http.MethodGet, Path: "/os-aggregates", Rule: list, Handle: func(*Request) (any, error) {
				return map[string]any{"aggregates": []any{}}, nil
			}},
		},
	}
}
