package devcloud

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
)

// identity is the identity service, Keystone's API v3.
type identity struct{ *Server }

func (i *identity) mount(g *echo.Group) {
	for _, path := range []string{"", "/"} {
		g.GET(path, i.versions)
		g.GET("/v3"+path, i.version)
	}
	g.POST("/v3/auth/tokens", i.login)

	v3 := g.Group("/v3", i.authenticated)
	v3.GET("/auth/tokens", i.validate)
	v3.HEAD("/auth/tokens", i.validate)
	v3.DELETE("/auth/tokens", i.revoke)
	v3.GET("/auth/catalog", i.showCatalog)
	v3.GET("/auth/projects", i.ownProjects)
	v3.GET("/auth/domains", i.ownDomains)

	v3.GET("/projects", i.listProjects)
	v3.POST("/projects", admins("create_project", i.createProject))
	v3.GET("/projects/:id", i.showProject)
	v3.PATCH("/projects/:id", admins("update_project", i.updateProject))
	v3.DELETE("/projects/:id", admins("delete_project", i.deleteProject))
	v3.GET("/projects/:id/users/:user/roles", admins("list_grants", i.listRolesOn))
	v3.HEAD("/projects/:id/users/:user/roles/:role", admins("check_grant", i.hasRole))
	v3.GET("/projects/:id/users/:user/roles/:role", admins("check_grant", i.hasRole))
	v3.PUT("/projects/:id/users/:user/roles/:role", admins("create_grant", i.grantRole))
	v3.DELETE("/projects/:id/users/:user/roles/:role", admins("revoke_grant", i.revokeRole))
	v3.GET("/users", i.listUsers)
	v3.POST("/users", admins("create_user", i.createUser))
	v3.GET("/users/:id", i.showUser)
	v3.PATCH("/users/:id", admins("update_user", i.updateUser))
	v3.DELETE("/users/:id", admins("delete_user", i.deleteUser))
	v3.POST("/users/:id/password", i.changePassword)
	v3.GET("/users/:id/projects", i.userProjects)
	v3.GET("/roles", i.listRoles)
	v3.GET("/roles/:id", i.showRole)
	v3.GET("/domains", i.listDomains)
	v3.GET("/domains/:id", i.showDomain)
	v3.GET("/role_assignments", i.listAssignments)
	v3.GET("/services", i.listServices)
	v3.GET("/endpoints", i.listEndpoints)
	v3.GET("/regions", i.listRegions)
}

func (i *identity) document() map[string]any {
	return map[string]any{
		"id": "v3.14", "status": "stable", "updated": "2020-04-07T00:00:00Z",
		"links":       []map[string]string{{"rel": "self", "href": i.AuthURL() + "/"}},
		"media-types": []map[string]string{{"base": "application/json", "type": "application/vnd.openstack.identity-v3+json"}},
	}
}

func (i *identity) versions(c echo.Context) error {
	return c.JSON(http.StatusMultipleChoices, map[string]any{"versions": map[string]any{"values": []any{i.document()}}})
}

func (i *identity) version(c echo.Context) error {
	return c.JSON(http.StatusOK, map[string]any{"version": i.document()})
}

// keystoneTime is a time in Keystone's form: UTC, microseconds.
func keystoneTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z") }
