package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/jackc/pgx/v5"

	"strongroom/api/fault"
	"strongroom/api/microversion"
	"strongroom/api/validation"
	"strongroom/compute"
	"strongroom/schema"
)

// flavors is what everybody sees of flavors.
func (a *API) flavors() Resource {
	return Resource{Routes: []Route{
		{Method: http.MethodGet, Path: "/flavors", Query: flavorQuery, Handle: a.listFlavors},
		{Method: http.MethodGet, Path: "/flavors/detail", Query: flavorQuery, Handle: a.detailFlavors},
		{Method: http.MethodGet, Path: "/flavors/:id", Handle: a.showFlavor},
	}}
}

var flavorQuery = validation.Since(func(v microversion.Version) validation.Schema {
	p := validation.Properties{
		"limit":     validation.Repeated(validation.NonNegative),
		"marker":    validation.Repeated(validation.Text),
		"is_public": validation.Repeated(validation.Text),
		"minRam":    validation.Repeated(validation.Text),
		"minDisk":   validation.Repeated(validation.Text),
		"sort_key":  validation.Repeated(validation.Enum(flavorSortKeys...)),
		"sort_dir":  validation.Repeated(validation.Enum("asc", "desc")),
	}
	if v >= 75 {
		return validation.Object(nil, p)
	}
	return validation.Open(p)
}, 1, 75)

func (a *API) listFlavors(r *Request) (any, error) {
	page, next, err := a.flavorPage(r, "flavors")
	if err != nil {
		return nil, err
	}
	items := make([]flavorView, len(page))
	for i, f := range page {
		items[i] = flavorView{"id": f.ID, "name": f.Name, "links": r.Links("flavors", f.ID)}
		if r.Version >= 55 {
			items[i]["description"] = f.Description
		}
	}
	return Collection("flavors", items, next), nil
}

func (a *API) detailFlavors(r *Request) (any, error) {
	page, next, err := a.flavorPage(r, "flavors/detail")
	if err != nil {
		return nil, err
	}
	specs, err := a.flavorSpecs(r, page...)
	if err != nil {
		return nil, err
	}
	items := make([]flavorView, len(page))
	for i, f := range page {
		items[i] = viewFlavor(r, f, specs)
	}
	return Collection("flavors", items, next), nil
}

func (a *API) showFlavor(r *Request) (any, error) {
	f, err := a.flavor(r, r.Param("id"))
	if err != nil {
		return nil, err
	}
	return a.answerFlavor(r, f)
}

// answerFlavor is the answer of a request about one flavor.
func (a *API) answerFlavor(r *Request, f schema.Flavor) (any, error) {
	specs, err := a.flavorSpecs(r, f)
	if err != nil {
		return nil, err
	}
	return map[string]any{"flavor": viewFlavor(r, f, specs)}, nil
}

// flavor finds a flavor that the caller may see.
func (a *API) flavor(r *Request, id string) (schema.Flavor, error) {
	var f schema.Flavor
	var err error
	if r.IsAdmin() {
		f, err = a.db.GetFlavor(r.Context(), id)
	} else {
		f, err = a.db.GetFlavorFor(r.Context(), schema.GetFlavorForParams{ID: id, ProjectID: r.ProjectID()})
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return schema.Flavor{}, noFlavor(id)
	}
	return f, err
}

func noFlavor(id string) error { return fault.NotFound("Flavor %s could not be found.", id) }

// computeFlavor finds a flavor that the caller may see, as an operation needs
// it: with its extra specs.
func (a *API) computeFlavor(r *Request, id string) (compute.Flavor, error) {
	f, err := a.flavor(r, id)
	if err != nil {
		return compute.Flavor{}, err
	}
	specs, err := a.extraSpecs(r.Context(), f.ID)
	if err != nil {
		return compute.Flavor{}, err
	}
	return compute.Flavor{
		ID: f.ID, Name: f.Name, VCPUs: int(f.VCPUs), MemoryMB: int(f.MemoryMB), RootGB: int(f.RootGB),
		EphemeralGB: int(f.EphemeralGB), SwapMB: int(f.SwapMB), ExtraSpecs: specs[f.ID],
	}, nil
}

// extraSpecs gives the extra specs of flavors, by flavor. Each has a map.
func (a *API) extraSpecs(ctx context.Context, ids ...string) (map[string]map[string]string, error) {
	rows, err := a.db.FlavorExtraSpecs(ctx, ids)
	if err != nil {
		return nil, err
	}
	all := make(map[string]map[string]string, len(ids))
	for _, id := range ids {
		all[id] = map[string]string{}
	}
	for _, row := range rows {
		all[row.FlavorID][row.Key] = row.Value
	}
	return all, nil
}

// flavorSpecs gives the extra specs that views of the flavors show: none below
// 2.61 and for those who may not list them.
func (a *API) flavorSpecs(r *Request, flavors ...schema.Flavor) (map[string]map[string]string, error) {
	if r.Version < 61 || !r.Allowed(ruleListExtraSpecs) {
		return nil, nil
	}
	ids := make([]string, len(flavors))
	for i, f := range flavors {
		ids[i] = f.ID
	}
	return a.extraSpecs(r.Context(), ids...)
}

type flavorView map[string]any

// viewFlavor shows a flavor in full. specs nil: without extra specs.
func viewFlavor(r *Request, f schema.Flavor, specs map[string]map[string]string) flavorView {
	view := flavorView{
		"id": f.ID, "name": f.Name, "ram": f.MemoryMB, "disk": f.RootGB, "swap": f.SwapMB, "vcpus": f.VCPUs,
		"OS-FLV-EXT-DATA:ephemeral":  f.EphemeralGB,
		"OS-FLV-DISABLED:disabled":   f.Disabled,
		"os-flavor-access:is_public": f.IsPublic,
		"rxtx_factor":                decimal(f.RxtxFactor),
		"links":                      r.Links("flavors", f.ID),
	}
	if r.Version < 75 && f.SwapMB == 0 {
		view["swap"] = ""
	}
	if r.Version >= 55 {
		view["description"] = f.Description
	}
	if specs != nil {
		view["extra_specs"] = specs[f.ID]
	}
	return view
}

// decimal is a number that always shows a fraction: 1.0, not 1.
type decimal float64

// MarshalJSON writes 1 as 1.0.
func (d decimal) MarshalJSON() ([]byte, error) {
	if d == decimal(int64(d)) {
		return strconv.AppendFloat(nil, float64(d), 'f', 1, 64), nil
	}
	return strconv.AppendFloat(nil, float64(d), 'g', -1, 64), nil
}
