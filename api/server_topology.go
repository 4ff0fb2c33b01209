package api

import (
	"net/http"

	"strongroom/api/policy"
	"strongroom/api/validation"
	"strongroom/schema"
)

const ruleTopology = "compute:server:topology:index"

// serverTopology is what of a host's NUMA nodes a server's machine is bound to, which is nothing, and the size of
// the pages that its memory is on.
func (a *API) serverTopology() Resource {
	return Resource{
		Rules: policy.Rules{ruleTopology: policy.ProjectReaderOrAdmin},
		Routes: []Route{{
			Method: http.MethodGet, Path: "/servers/:id/topology", Min: 78, Query: validation.Always(validation.Object(nil, validation.Properties{})), Handle: a.showTopology,
		}},
	}
}

func (a *API) showTopology(r *Request) (any, error) {
	row, err := a.findServer(r, ruleTopology)
	if err != nil {
		return nil, err
	}
	view := map[string]any{"nodes": []any{}, "pagesize_kb": nil}
	s, err := schema.LoadServer(r.Context(), a.db, row.Server.ID)
	if err != nil {
		return nil, err
	}
	// Of the host's default size, and of pages of any size, the API knows no number.
	if kib, huge := s.OnHugePages(); huge && kib > 0 {
		view["pagesize_kb"] = kib
	}
	return view, nil
}
