package api

import (
	"strings"

	"strongroom/api/fault"
	"strongroom/schema"
)

// The older ways to look hypervisors up, replaced by queries in 2.53 and 2.88.

// hypervisorsNamed gives the hosts whose names hold a text. A 404 when there are none.
func (a *API) hypervisorsNamed(r *Request, part string) ([]schema.HostsWithUseRow, error) {
	hosts, err := a.db.HostsWithUse(r.Context(), nil)
	if err != nil {
		return nil, err
	}
	var found []schema.HostsWithUseRow
	for _, h := range hosts {
		if strings.Contains(h.Name, part) {
			found = append(found, h)
		}
	}
	if len(found) == 0 {
		return nil, fault.NotFound("No hypervisor matching '%s' could be found.", part)
	}
	return found, nil
}

func (a *API) searchHypervisors(r *Request) (any, error) { return a.namedHypervisors(r, false) }

func (a *API) hypervisorServers(r *Request) (any, error) { return a.namedHypervisors(r, true) }

func (a *API) namedHypervisors(r *Request, withServers bool) (any, error) {
	hosts, err := a.hypervisorsNamed(r, r.Param("id"))
	if err != nil {
		return nil, err
	}
	views, err := a.viewHypervisors(r, hosts, false, withServers)
	if err != nil {
		return nil, err
	}
	return map[string]any{"hypervisors": views}, nil
}

// hypervisorStatistics sums over the enabled hosts.
func (a *API) hypervisorStatistics(r *Request) (any, error) {
	hosts, err := a.db.HostsWithUse(r.Context(), nil)
	if err != nil {
		return nil, err
	}
	sums := hypervisorUse{}
	count := 0
	for _, h := range hosts {
		if !h.Disabled {
			count++
			sums.add(useOf(h))
		}
	}
	view := map[string]any{"count": count}
	sums.write(view)
	return map[string]any{"hypervisor_statistics": view}, nil
}
