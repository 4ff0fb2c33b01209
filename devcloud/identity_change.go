package devcloud

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/labstack/echo/v4"
)

// Administrators change the users' file by projects, users and assignments of roles, as in Keystone. What strongroom itself logs in with stays.

const (
	maxProjectName = 64 // characters
	maxUserName    = 255
)

// admins lets administrators through; rule is what others are refused.
func admins(rule string, h echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if !callerOf(c).has("admin") {
			return forbidden("identity:" + rule)
		}
		return h(c)
	}
}

// strongroomsOwn refuses to change what strongroom's services log in with.
func strongroomsOwn(kind, name string) error {
	return fault(http.StatusForbidden, "The %s %s is the one with which strongroom itself logs in: it stays as it is.", kind, name)
}

// readThing reads a body with one thing, under its kind. An attribute that things of this kind do not have here is refused: it
// would be lost without a word.
func readThing(c echo.Context, kind string, into any, attributes ...string) error {
	var body map[string]json.RawMessage
	if err := readJSON(c, &body); err != nil {
		return err
	}
	var thing map[string]json.RawMessage
	if json.Unmarshal(body[kind], &thing) != nil || thing == nil {
		return fault(http.StatusBadRequest, "The request body is not an object with a member %q, which is an object.", kind)
	}
	for name := range thing {
		if !slices.Contains(attributes, name) {
			return fault(http.StatusBadRequest, "A %s has no attribute %q in this identity service, only %s.", kind, name, strings.Join(attributes, ", "))
		}
	}
	var wrong *json.UnmarshalTypeError
	if err := json.Unmarshal(body[kind], into); errors.As(err, &wrong) { // its text may quote the value
		return fault(http.StatusBadRequest, "The attribute %q of the %s must be of type %s.", wrong.Field, kind, wrong.Type)
	} else if err != nil {
		return fault(http.StatusBadRequest, "The %s is not the JSON that is expected here.", kind)
	}
	return nil
}

// placement are the attributes that say where in the tree of domains a thing is. There is one domain, and projects are not in each other.
type placement struct {
	DomainID *string        `json:"domain_id"`
	ParentID *string        `json:"parent_id"`
	IsDomain *bool          `json:"is_domain"`
	Options  map[string]any `json:"options"`
}

func (p placement) check() error {
	for _, id := range []*string{p.DomainID, p.ParentID} {
		if id != nil && *id != "" && *id != domainID {
			return fault(http.StatusNotImplemented, "This identity service, of strongroom dev, has one domain, %q, and no projects in projects. %s", domainID, takeKeystone)
		}
	}
	if p.IsDomain != nil && *p.IsDomain {
		return fault(http.StatusNotImplemented, "This identity service, of strongroom dev, makes no domains. %s", takeKeystone)
	}
	for name, value := range p.Options {
		if list, isList := value.([]any); value != nil && value != false && (!isList || len(list) > 0) {
			return fault(http.StatusNotImplemented, "This identity service, of strongroom dev, has no option %q. %s", name, takeKeystone)
		}
	}
	return nil
}

const takeKeystone = "For these run it on a Keystone: strongroom dev --cloud FILE."

// checkName checks the name of a project or a user.
func checkName(kind, name string, longest int) error {
	if strings.TrimSpace(name) == "" || utf8.RuneCountInString(name) > longest {
		return fault(http.StatusBadRequest, "The name of a %s has 1 to %d characters, and not only spaces.", kind, longest)
	}
	return nil
}

func duplicate(kind, name string) error {
	return fault(http.StatusConflict, "There is a %s with the name %q already.", kind, name)
}

type projectBody struct {
	placement
	Name        *string   `json:"name"`
	Description *string   `json:"description"`
	Enabled     *bool     `json:"enabled"`
	Tags        *[]string `json:"tags"`
}

func readProject(c echo.Context) (body projectBody, err error) {
	err = readThing(c, "project", &body, "description", "domain_id", "enabled", "is_domain", "name", "options", "parent_id", "tags")
	if err == nil {
		err = body.check()
	}
	return body, err
}

// apply changes a project of the directory.
func (b projectBody) apply(d *directory, p *project) error {
	if b.Name != nil && *b.Name != p.Name {
		if err := checkName("project", *b.Name, maxProjectName); err != nil {
			return err
		}
		if d.projectNamed(*b.Name) != nil {
			return duplicate("project", *b.Name)
		}
		for _, u := range d.Users {
			if roles, has := u.Roles[p.Name]; has {
				u.Roles[*b.Name] = roles
				delete(u.Roles, p.Name)
			}
		}
		p.Name = *b.Name
	}
	if b.Description != nil {
		p.Description = *b.Description
	}
	if b.Enabled != nil {
		p.Disabled = !*b.Enabled
	}
	if b.Tags != nil {
		p.Tags = unique(*b.Tags)
	}
	return nil
}

// createProject is POST /v3/projects.
func (i *identity) createProject(c echo.Context) error {
	body, err := readProject(c)
	if err != nil {
		return err
	}
	if body.Name == nil {
		return fault(http.StatusBadRequest, "A project needs a name.")
	}
	made := project{ID: newID()}
	err = i.users.change(func(d *directory) error {
		if err := body.apply(d, &made); err != nil {
			return err
		}
		d.Projects = append(d.Projects, made)
		return nil
	})
	if err != nil {
		return err
	}
	return c.JSON(http.StatusCreated, map[string]any{"project": i.projectDocument(&made)})
}

// changeProject has fn change the project in the path.
func (i *identity) changeProject(c echo.Context, fn func(*directory, *project) error) error {
	return i.users.change(func(d *directory) error {
		p := d.project(c.Param("id"))
		switch {
		case p == nil:
			return notFound("project", c.Param("id"))
		case p.Name == ServiceProject:
			return strongroomsOwn("project", p.Name)
		}
		return fn(d, p)
	})
}

// updateProject is PATCH /v3/projects/{id}.
func (i *identity) updateProject(c echo.Context) error {
	body, err := readProject(c)
	if err != nil {
		return err
	}
	var changed project
	err = i.changeProject(c, func(d *directory, p *project) error {
		err := body.apply(d, p)
		changed = *p
		return err
	})
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, map[string]any{"project": i.projectDocument(&changed)})
}

// deleteProject is DELETE /v3/projects/{id}. Its servers and images stay, as with a Keystone; administrators find them.
func (i *identity) deleteProject(c echo.Context) error {
	err := i.changeProject(c, func(d *directory, gone *project) error {
		for n := range d.Users {
			delete(d.Users[n].Roles, gone.Name)
			if d.Users[n].DefaultProject == gone.ID {
				d.Users[n].DefaultProject = ""
			}
		}
		id := gone.ID
		d.Projects = slices.DeleteFunc(d.Projects, func(p project) bool { return p.ID == id })
		return nil
	})
	if err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}
