package devcloud

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/labstack/echo/v4"
)

// Administrators make, change and delete projects, users and assignments of roles, as in Keystone; the users' file keeps them. What
// strongroom itself logs in with stays.

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

// nullIs says what null is for an attribute.
type nullIs int

const (
	refused nullIs = iota // null is bad input
	absent                // as if it were not named
	empty                 // as if it were ""
)

// readThing reads a body with one thing, under its kind, and gives its attributes as they were sent. One that things of this kind do
// not have here is refused: it would be lost without a word.
func readThing(c echo.Context, kind string, into any, attributes map[string]nullIs) (sent map[string]json.RawMessage, err error) {
	var body map[string]json.RawMessage
	if err := readJSON(c, &body); err != nil {
		return nil, err
	}
	if json.Unmarshal(body[kind], &sent) != nil || sent == nil {
		return nil, fault(http.StatusBadRequest, "The request body is not an object with a member %q, which is an object.", kind)
	}
	read := map[string]json.RawMessage{}
	for name, value := range sent {
		null, known := attributes[name]
		switch {
		case !known:
			has := strings.Join(slices.Sorted(maps.Keys(attributes)), ", ")
			return nil, fault(http.StatusNotImplemented, "A %s has no attribute %q in this identity service, of strongroom dev, only %s. %s", kind, name, has, takeKeystone)
		case string(value) != "null":
			read[name] = value
		case null == empty:
			read[name] = json.RawMessage(`""`)
		case null == refused:
			return nil, fault(http.StatusBadRequest, "The attribute %q of the %s cannot be null.", name, kind)
		}
	}
	again, err := json.Marshal(read)
	if err != nil {
		return nil, err
	}
	var wrong *json.UnmarshalTypeError
	if err := json.Unmarshal(again, into); errors.As(err, &wrong) { // its text may quote the value
		_, name, _ := strings.Cut("."+wrong.Field, ".placement.")
		return nil, fault(http.StatusBadRequest, "The attribute %q of the %s is not %s.", cmp.Or(name, wrong.Field), kind, inWords(wrong.Type))
	} else if err != nil {
		return nil, fault(http.StatusBadRequest, "The %s is not the JSON that is expected here.", kind)
	}
	return sent, nil
}

// inWords names a type of JSON.
func inWords(t reflect.Type) string {
	switch t.Kind() { //nolint:exhaustive // no others are in the bodies
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list of strings"
	case reflect.Map:
		return "an object"
	}
	return "a string"
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

const takeKeystone = "For that run strongroom on a Keystone: strongroom dev --cloud FILE."

// checkName checks the name of a project or a user.
func checkName(kind, name string, longest int) error {
	if strings.TrimSpace(name) == "" || utf8.RuneCountInString(name) > longest || !inOneLine(name) {
		return fault(http.StatusBadRequest, "The name of a %s has 1 to %d characters in one line, and not only spaces.", kind, longest)
	}
	return nil
}

// inOneLine reports whether a text has no breaks of lines and other control characters.
func inOneLine(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' })
}

// checkTags checks the tags of a project.
func checkTags(tags []string) error {
	for _, tag := range tags {
		if tag == "" || utf8.RuneCountInString(tag) > maxTag || strings.ContainsAny(tag, ",/") || !inOneLine(tag) {
			return fault(http.StatusBadRequest, "A tag has 1 to %d characters in one line, and none of them is a comma or a slash.", maxTag)
		}
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
	_, err = readThing(c, "project", &body, map[string]nullIs{
		"description": empty, "domain_id": absent, "enabled": refused, "is_domain": absent, "name": refused, "options": absent, "parent_id": absent, "tags": refused,
	})
	if err == nil {
		err = body.check()
	}
	if err == nil && body.Tags != nil {
		err = checkTags(*body.Tags)
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
		p.Description = text(*b.Description)
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
