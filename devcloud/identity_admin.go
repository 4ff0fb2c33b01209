package devcloud

import (
	"maps"
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"
)

// listAssignments is GET /v3/role_assignments: who has which role where.
func (i *identity) listAssignments(c echo.Context) error {
	caller := callerOf(c)
	if !caller.has("admin") && c.QueryParam("user.id") != caller.UserID {
		return forbidden("identity:list_role_assignments")
	}
	_, names := c.QueryParams()["include_names"]
	all := []map[string]any{}
	for _, elsewhere := range []string{"scope.domain.id", "scope.system", "group.id", "scope.OS-INHERIT:inherited_to"} {
		if c.QueryParam(elsewhere) != "" { // there are none
			return c.JSON(http.StatusOK, map[string]any{"role_assignments": all, "links": i.links(c)})
		}
	}
	users := i.users.now()
	for n := range users.Users {
		all = append(all, i.assignments(users, &users.Users[n], names)...)
	}
	all = slices.DeleteFunc(all, func(a map[string]any) bool {
		return !asked(c, "user.id", a["user"]) || !asked(c, "role.id", a["role"]) ||
			!asked(c, "scope.project.id", a["scope"].(map[string]any)["project"])
	})
	return c.JSON(http.StatusOK, map[string]any{"role_assignments": all, "links": i.links(c)})
}

// asked reports whether a query lets a thing pass by its id.
func asked(c echo.Context, key string, thing any) bool {
	id := c.QueryParam(key)
	return id == "" || thing.(map[string]any)["id"] == id
}

func (i *identity) assignments(users *directory, u *user, names bool) []map[string]any {
	thing := func(id, name string, domain bool) map[string]any {
		out := map[string]any{"id": id}
		if names {
			out["name"] = name
		}
		if names && domain {
			out["domain"] = map[string]string{"id": domainID, "name": domainName}
		}
		return out
	}
	var out []map[string]any
	for _, name := range slices.Sorted(maps.Keys(u.Roles)) {
		p := users.projectNamed(name)
		for _, r := range u.rolesOn(p) {
			out = append(out, map[string]any{
				"user": thing(u.ID, u.Name, true), "role": thing(r.ID, r.Name, false),
				"scope": map[string]any{"project": thing(p.ID, p.Name, true)},
				"links": map[string]string{"assignment": i.AuthURL() + "/projects/" + p.ID + "/users/" + u.ID + "/roles/" + r.ID},
			})
		}
	}
	return out
}

// showCatalog is GET /v3/auth/catalog.
func (i *identity) showCatalog(c echo.Context) error {
	project := callerOf(c).project
	if project == nil {
		return forbidden("identity:get_auth_catalog")
	}
	return c.JSON(http.StatusOK, map[string]any{"catalog": i.catalogFor(project), "links": i.links(c)})
}

func (i *identity) listServices(c echo.Context) error {
	if !callerOf(c).has("admin") {
		return forbidden("identity:list_services")
	}
	all := []map[string]any{}
	for _, s := range i.catalog() {
		if kind := c.QueryParam("type"); kind == "" || kind == s.Type {
			all = append(all, map[string]any{"id": s.ID, "type": s.Type, "name": s.Name, "enabled": true, "links": i.self("services", s.ID)})
		}
	}
	return i.list(c, "services", all)
}

func (i *identity) listEndpoints(c echo.Context) error {
	if !callerOf(c).has("admin") {
		return forbidden("identity:list_endpoints")
	}
	all := []map[string]any{}
	for _, s := range i.catalog() {
		for _, e := range s.Endpoints {
			all = append(all, map[string]any{
				"id": e.ID, "service_id": s.ID, "interface": e.Interface, "url": e.URL, "region": e.Region, "region_id": e.RegionID,
				"enabled": true, "links": i.self("endpoints", e.ID),
			})
		}
	}
	return i.list(c, "endpoints", all)
}

func (i *identity) listRegions(c echo.Context) error {
	return i.list(c, "regions", []map[string]any{{
		"id": i.cfg.Region, "description": "", "parent_region_id": nil, "links": i.self("regions", i.cfg.Region),
	}})
}
