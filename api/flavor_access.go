package api

import (
	"net/http"

	"strongroom/api/fault"
	"strongroom/api/policy"
	"strongroom/api/validation"
	"strongroom/schema"
)

// flavorAccess says which projects see a private flavor.
func (a *API) flavorAccess() Resource {
	const (
		list   = "os_compute_api:os-flavor-access"
		add    = list + ":add_tenant_access"
		remove = list + ":remove_tenant_access"
	)
	return Resource{
		Rules: policy.Rules{list: policy.Admin, add: policy.Admin, remove: policy.Admin},
		Routes: []Route{
			{Method: http.MethodGet, Path: "/flavors/:id/os-flavor-access", Rule: list, Handle: a.listFlavorAccess},
			{Method: http.MethodPost, Path: "/flavors/:id/action", Action: "addTenantAccess", Rule: add,
				Body: tenantBody("addTenantAccess"), Handle: a.addFlavorAccess},
			{Method: http.MethodPost, Path: "/flavors/:id/action", Action: "removeTenantAccess", Rule: remove,
				Body: tenantBody("removeTenantAccess"), Handle: a.removeFlavorAccess},
		},
	}
}

func tenantBody(action string) validation.Versions {
	return validation.Always(validation.Object([]string{action}, validation.Properties{
		action: validation.Object([]string{"tenant"}, validation.Properties{"tenant": validation.ProjectID}),
	}))
}

type tenant struct {
	Tenant string `json:"tenant"`
}

func (a *API) listFlavorAccess(r *Request) (any, error) {
	f, err := a.flavor(r, r.Param("id"))
	if err != nil {
		return nil, err
	}
	if f.IsPublic {
		return nil, fault.NotFound("Access list not available for public flavors.")
	}
	return a.viewFlavorAccess(r, f.ID)
}

func (a *API) viewFlavorAccess(r *Request, flavor string) (any, error) {
	projects, err := a.db.FlavorProjects(r.Context(), flavor)
	if err != nil {
		return nil, err
	}
	items := make([]map[string]string, len(projects))
	for i, project := range projects {
		items[i] = map[string]string{"flavor_id": flavor, "tenant_id": project}
	}
	return map[string]any{"flavor_access": items}, nil
}

func (a *API) addFlavorAccess(r *Request) (any, error) {
	var body struct {
		Action tenant `json:"addTenantAccess"`
	}
	if err := r.Decode(&body); err != nil {
		return nil, err
	}
	if err := a.knownProject(r, body.Action.Tenant); err != nil {
		return nil, err
	}
	f, err := a.flavor(r, r.Param("id"))
	if err != nil {
		return nil, err
	}
	if r.Version >= 7 && f.IsPublic {
		return nil, fault.Conflict("Can not add access to a public flavor.")
	}
	n, err := a.db.AddFlavorAccess(r.Context(), schema.AddFlavorAccessParams{FlavorID: f.ID, ProjectID: body.Action.Tenant})
	if violated(err) == "flavor_access_flavor_id_fkey" { // it was deleted meanwhile
		return nil, noFlavor(f.ID)
	}
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, fault.Conflict("Flavor access already exists for flavor %s and project %s combination.", f.ID, body.Action.Tenant)
	}
	return a.viewFlavorAccess(r, f.ID)
}

// removeFlavorAccess also takes the access of a project that Keystone does not know any more.
func (a *API) removeFlavorAccess(r *Request) (any, error) {
	var body struct {
		Action tenant `json:"removeTenantAccess"`
	}
	if err := r.Decode(&body); err != nil {
		return nil, err
	}
	f, err := a.flavor(r, r.Param("id"))
	if err != nil {
		return nil, err
	}
	n, err := a.db.RemoveFlavorAccess(r.Context(), schema.RemoveFlavorAccessParams{FlavorID: f.ID, ProjectID: body.Action.Tenant})
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, fault.NotFound("Flavor access not found for %s / %s combination.", f.ID, body.Action.Tenant)
	}
	return a.viewFlavorAccess(r, f.ID)
}
