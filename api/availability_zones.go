package api

import (
	"net/http"
	"slices"
	"strings"

	"strongroom/api/policy"
	"strongroom/schema"
)

// availabilityZones are the zones that hosts are in.
func (a *API) availabilityZones() Resource {
	const (
		list   = "os_compute_api:os-availability-zone:list"
		detail = "os_compute_api:os-availability-zone:detail"
	)
	return Resource{
		Rules: policy.Rules{list: policy.ProjectReaderOrAdmin, detail: policy.Admin},
		Routes: []Route{
			{Method: http.MethodGet, Path: "/os-availability-zone", Rule: list, Handle: a.listZones},
			{Method: http.MethodGet, Path: "/os-availability-zone/detail", Rule: detail, Handle: a.detailZones},
		},
	}
}

// zone is an availability zone. It is available while a host of it is enabled.
type zone struct {
	name  string
	hosts []schema.Host // enabled ones
}

// zones gives all zones: the available ones first, each part by name.
func (a *API) zones(r *Request) ([]zone, error) {
	rows, err := a.db.HostsWithUse(r.Context(), nil)
	if err != nil {
		return nil, err
	}
	var all []zone
	for _, row := range rows {
		i := slices.IndexFunc(all, func(z zone) bool { return z.name == row.Zone })
		if i < 0 {
			i, all = len(all), append(all, zone{name: row.Zone})
		}
		if !row.Disabled {
			all[i].hosts = append(all[i].hosts, withoutUse(row))
		}
	}
	slices.SortFunc(all, func(x, y zone) int {
		if (len(x.hosts) > 0) != (len(y.hosts) > 0) {
			return compareBool(len(y.hosts) > 0, len(x.hosts) > 0)
		}
		return strings.Compare(x.name, y.name)
	})
	return all, nil
}

func (a *API) listZones(r *Request) (any, error) {
	return a.answerZones(r, func(zone) any { return nil })
}

func (a *API) detailZones(r *Request) (any, error) {
	return a.answerZones(r, func(z zone) any {
		if len(z.hosts) == 0 {
			return nil
		}
		hosts := map[string]any{}
		for _, h := range z.hosts {
			hosts[h.Name] = map[string]any{computeBinary: map[string]any{
				"available": a.hostUp(h), "active": true, "updated_at": microseconds(&h.LastSeen),
			}}
		}
		return hosts
	})
}

func (a *API) answerZones(r *Request, hosts func(zone) any) (any, error) {
	all, err := a.zones(r)
	if err != nil {
		return nil, err
	}
	items := make([]map[string]any, len(all))
	for i, z := range all {
		items[i] = map[string]any{
			"zoneName": z.name, "zoneState": map[string]any{"available": len(z.hosts) > 0}, "hosts": hosts(z),
		}
	}
	return map[string]any{"availabilityZoneInfo": items}, nil
}
