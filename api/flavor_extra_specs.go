package api

import (
	"maps"
	"net/http"
	"slices"

	"strongroom/api/fault"
	"strongroom/api/policy"
	"strongroom/api/validation"
	"strongroom/compute"
	"strongroom/schema"
)

const ruleListExtraSpecs = "os_compute_api:os-flavor-extra-specs:index"

// flavorExtraSpecs are the key=value pairs of a flavor.
func (a *API) flavorExtraSpecs() Resource {
	const (
		path   = "/flavors/:id/os-extra_specs"
		root   = "os_compute_api:os-flavor-extra-specs:"
		show   = root + "show"
		create = root + "create"
		update = root + "update"
		remove = root + "delete"
	)
	return Resource{
		Rules: policy.Rules{
			ruleListExtraSpecs: policy.ProjectReaderOrAdmin, show: policy.ProjectReaderOrAdmin,
			create: policy.Admin, update: policy.Admin, remove: policy.Admin,
		},
		Routes: []Route{
			{Method: http.MethodGet, Path: path, Rule: ruleListExtraSpecs, Handle: a.listExtraSpecs},
			{Method: http.MethodPost, Path: path, Rule: create, Body: extraSpecsCreate, Handle: a.createExtraSpecs},
			{Method: http.MethodGet, Path: path + "/:key", Rule: show, Handle: a.showExtraSpec},
			{Method: http.MethodPut, Path: path + "/:key", Rule: update, Body: extraSpecsUpdate, Handle: a.updateExtraSpec},
			{Method: http.MethodDelete, Path: path + "/:key", Rule: remove, Handle: a.deleteExtraSpec},
		},
	}
}

var (
	extraSpecsCreate = validation.Always(validation.Object([]string{"extra_specs"}, validation.Properties{
		"extra_specs": validation.Metadata("string", "number"),
	}))
	extraSpecsUpdate = validation.Always(func() validation.Schema {
		s := validation.Metadata("string", "number")
		s["minProperties"], s["maxProperties"] = 1, 1
		return s
	}())
)

func (a *API) listExtraSpecs(r *Request) (any, error) {
	f, err := a.flavor(r, r.Param("id"))
	if err != nil {
		return nil, err
	}
	specs, err := a.extraSpecs(r.Context(), f.ID)
	if err != nil {
		return nil, err
	}
	return map[string]any{"extra_specs": specs[f.ID]}, nil
}

func (a *API) createExtraSpecs(r *Request) (any, error) {
	var body struct {
		Specs map[string]validation.TextOrNumber `json:"extra_specs"`
	}
	if err := r.Decode(&body); err != nil {
		return nil, err
	}
	stored, err := a.setExtraSpecs(r, body.Specs)
	if err != nil {
		return nil, err
	}
	return map[string]any{"extra_specs": stored}, nil
}

func (a *API) updateExtraSpec(r *Request) (any, error) {
	var body map[string]validation.TextOrNumber
	if err := r.Decode(&body); err != nil {
		return nil, err
	}
	if _, ok := body[r.Param("key")]; !ok {
		return nil, fault.BadRequest("Request body and URI mismatch")
	}
	return a.setExtraSpecs(r, body)
}

// setExtraSpecs stores extra specs and gives what was stored. From 2.86 on each
// is checked first; before, it is stored as it is.
func (a *API) setExtraSpecs(r *Request, specs map[string]validation.TextOrNumber) (map[string]string, error) {
	stored := make(map[string]string, len(specs))
	row := schema.SetFlavorExtraSpecsParams{}
	for _, key := range slices.Sorted(maps.Keys(specs)) {
		value := string(specs[key])
		if len(value) > 255 {
			return nil, fault.BadRequest("Invalid input received: extra_specs value has %d characters, more than 255.", len(value))
		}
		if r.Version >= 86 {
			var err error
			if value, err = compute.CheckExtraSpec(key, value); err != nil {
				return nil, err
			}
		}
		stored[key] = value
		row.Keys, row.Values = append(row.Keys, key), append(row.Values, value)
	}
	f, err := a.flavor(r, r.Param("id"))
	if err != nil {
		return nil, err
	}
	row.FlavorID = f.ID
	err = a.db.SetFlavorExtraSpecs(r.Context(), row)
	if violated(err) == "flavor_extra_specs_flavor_id_fkey" { // it was deleted meanwhile
		return nil, noFlavor(f.ID)
	}
	return stored, err
}

func (a *API) showExtraSpec(r *Request) (any, error) {
	f, err := a.flavor(r, r.Param("id"))
	if err != nil {
		return nil, err
	}
	specs, err := a.extraSpecs(r.Context(), f.ID)
	if err != nil {
		return nil, err
	}
	key := r.Param("key")
	value, ok := specs[f.ID][key]
	if !ok {
		return nil, noExtraSpec(f.ID, key)
	}
	return map[string]string{key: value}, nil
}

func (a *API) deleteExtraSpec(r *Request) (any, error) {
	f, err := a.flavor(r, r.Param("id"))
	if err != nil {
		return nil, err
	}
	key := r.Param("key")
	n, err := a.db.DeleteFlavorExtraSpec(r.Context(), schema.DeleteFlavorExtraSpecParams{FlavorID: f.ID, Key: key})
	if err == nil && n == 0 {
		return nil, noExtraSpec(f.ID, key)
	}
	return nil, err
}

func noExtraSpec(flavor, key string) error {
	return fault.NotFound("Flavor %s has no extra specs with key %s.", flavor, key)
}
