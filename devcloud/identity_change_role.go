package devcloud

import (
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"
)

// assignment is what the path /v3/projects/{id}/users/{user}/roles/{role} names.
type assignment struct {
	user    *user
	project *project
	role    string // its name
}

// assignment finds user, project and, if the path has one, role.
func (d *directory) assignment(c echo.Context) (assignment, error) {
	a := assignment{project: d.project(c.Param("id")), user: d.user(c.Param("user"))}
	if a.project == nil {
		return a, notFound("project", c.Param("id"))
	}
	if a.user == nil {
		return a, notFound("user", c.Param("user"))
	}
	if id := c.Param("role"); id != "" {
		r := find(d.roles(), func(r *role) bool { return r.ID == id })
		if r == nil {
			return a, notFound("role", id)
		}
		a.role = r.Name
	}
	return a, nil
}

func (a assignment) there() bool { return slices.Contains(a.user.Roles[a.project.Name], a.role) }

func (a assignment) missing() error {
	return fault(http.StatusNotFound, "User %s does not have the role %s on project %s.", a.user.Name, a.role, a.project.Name)
}

// listRolesOn is GET /v3/projects/{id}/users/{user}/roles.
func (i *identity) listRolesOn(c echo.Context) error {
	a, err := i.users.now().assignment(c)
	if err != nil {
		return err
	}
	all := []map[string]any{}
	for _, r := range a.user.rolesOn(a.project) {
		all = append(all, i.roleDocument(r))
	}
	return i.list(c, "roles", all)
}

// hasRole is HEAD and GET /v3/projects/{id}/users/{user}/roles/{role}.
func (i *identity) hasRole(c echo.Context) error {
	a, err := i.users.now().assignment(c)
	if err != nil {
		return err
	}
	if !a.there() {
		return a.missing()
	}
	return c.NoContent(http.StatusNoContent)
}

// changeRoles has fn change what a user may do in a project; fn gets and gives the names of the roles.
func (i *identity) changeRoles(c echo.Context, fn func(assignment, []string) ([]string, error)) error {
	err := i.users.change(func(d *directory) error {
		a, err := d.assignment(c)
		if err != nil {
			return err
		}
		if a.user.Name == ServiceUser {
			return strongroomsOwn("user", a.user.Name)
		}
		roles, err := fn(a, a.user.Roles[a.project.Name])
		if err != nil {
			return err
		}
		a.user.Roles[a.project.Name] = roles
		if len(roles) == 0 {
			delete(a.user.Roles, a.project.Name)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// grantRole is PUT /v3/projects/{id}/users/{user}/roles/{role}.
func (i *identity) grantRole(c echo.Context) error {
	return i.changeRoles(c, func(a assignment, roles []string) ([]string, error) {
		if a.there() {
			return roles, nil
		}
		return append(roles, a.role), nil
	})
}

// revokeRole is DELETE /v3/projects/{id}/users/{user}/roles/{role}.
func (i *identity) revokeRole(c echo.Context) error {
	return i.changeRoles(c, func(a assignment, roles []string) ([]string, error) {
		if !a.there() {
			return nil, a.missing()
		}
		return slices.DeleteFunc(roles, func(name string) bool { return name == a.role }), nil
	})
}
