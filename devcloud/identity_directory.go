package devcloud

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"
)

func (i *identity) links(c echo.Context) map[string]any {
	return map[string]any{"self": i.base() + c.Request().URL.Path, "previous": nil, "next": nil}
}

// list answers with those of a list that the query lets pass.
func (i *identity) list(c echo.Context, key string, all []map[string]any) error {
	matching := []map[string]any{}
	for _, one := range all {
		if passes(c.QueryParams(), one) {
			matching = append(matching, one)
		}
	}
	return c.JSON(http.StatusOK, map[string]any{key: matching, "links": i.links(c)})
}

// passes reports whether a query lets a thing pass: by the attributes that it names, by tags, and by parts of its name.
func passes(query url.Values, one map[string]any) bool {
	for key, values := range query {
		asked := values[0]
		if asked == "" && key != "name" {
			continue
		}
		name, _ := one["name"].(string)
		tags, tagged := one["tags"].([]string)
		has := func(tag string) bool { return slices.Contains(tags, tag) }
		named := strings.Split(asked, ",")
		lacks := func(tag string) bool { return !has(tag) }
		var ok bool
		switch attribute, how, _ := strings.Cut(key, "__"); {
		case tagged && key == "tags":
			ok = !slices.ContainsFunc(named, lacks)
		case tagged && key == "tags-any":
			ok = slices.ContainsFunc(named, has)
		case tagged && key == "not-tags":
			ok = slices.ContainsFunc(named, lacks)
		case tagged && key == "not-tags-any":
			ok = !slices.ContainsFunc(named, has)
		case attribute == "name" && how != "":
			ok = nameMatches(how, name, asked)
		case slices.Contains([]string{"unique_id", "idp_id", "protocol_id", "password_expires_at"}, key):
			ok = false // nobody comes from elsewhere, and no password expires
		default:
			ok = attributeIs(one, key, asked)
		}
		if !ok {
			return false
		}
	}
	return true
}

// nameMatches compares as Keystone's inexact filters do.
func nameMatches(how, name, asked string) bool {
	if insensitive, is := strings.CutPrefix(how, "i"); is {
		how, name, asked = insensitive, strings.ToLower(name), strings.ToLower(asked)
	}
	switch how {
	case "contains":
		return strings.Contains(name, asked)
	case "startswith":
		return strings.HasPrefix(name, asked)
	case "endswith":
		return strings.HasSuffix(name, asked)
	case "exact":
		return name == asked
	}
	return true
}

// attributeIs compares an attribute. A query for one that such things do not have says nothing.
func attributeIs(one map[string]any, key, asked string) bool {
	value, has := one[key]
	switch value := value.(type) {
	case string:
		return value == asked
	case bool:
		yes, err := strconv.ParseBool(asked)
		return value == (yes || err != nil)
	case nil:
		return !has
	}
	return true
}

func (i *identity) self(kind, id string) map[string]string {
	return map[string]string{"self": i.AuthURL() + "/" + kind + "/" + id}
}

func (i *identity) projectDocument(p *project) map[string]any {
	return map[string]any{
		"id": p.ID, "name": p.Name, "description": string(p.Description), "domain_id": domainID, "parent_id": domainID,
		"enabled": !p.Disabled, "is_domain": false, "tags": append([]string{}, p.Tags...), "options": map[string]any{}, "links": i.self("projects", p.ID),
	}
}

func (i *identity) userDocument(u *user) map[string]any {
	doc := map[string]any{
		"id": u.ID, "name": u.Name, "domain_id": domainID, "enabled": !u.Disabled, "password_expires_at": nil,
		"options": map[string]any{}, "links": i.self("users", u.ID),
	}
	for key, value := range map[string]string{"description": string(u.Description), "email": string(u.Email), "default_project_id": u.DefaultProject} {
		if value != "" { // Keystone has them only where they were given
			doc[key] = value
		}
	}
	return doc
}

func (i *identity) roleDocument(r role) map[string]any {
	return map[string]any{
		"id": r.ID, "name": r.Name, "domain_id": nil, "description": nil, "options": map[string]any{}, "links": i.self("roles", r.ID),
	}
}

func (i *identity) domainDocument() map[string]any {
	return map[string]any{
		"id": domainID, "name": domainName, "description": "The default domain", "enabled": true,
		"tags": []string{}, "options": map[string]any{}, "links": i.self("domains", domainID),
	}
}

func (i *identity) projectDocuments(all []project) []map[string]any {
	out := []map[string]any{}
	for n := range all {
		out = append(out, i.projectDocument(&all[n]))
	}
	return out
}

func notFound(what, id string) error {
	return fault(http.StatusNotFound, "Could not find %s: %s.", what, id)
}

func (i *identity) ownProjects(c echo.Context) error {
	return i.list(c, "projects", i.projectDocuments(i.users.now().projectsOf(callerOf(c).user)))
}

func (i *identity) ownDomains(c echo.Context) error {
	return i.list(c, "domains", nil) // nobody has a role on the domain
}

func (i *identity) listProjects(c echo.Context) error {
	if !callerOf(c).has("admin") {
		return forbidden("identity:list_projects")
	}
	return i.list(c, "projects", i.projectDocuments(i.users.now().Projects))
}

func (i *identity) showProject(c echo.Context) error {
	caller, p := callerOf(c), i.users.now().project(c.Param("id"))
	switch {
	case p == nil && caller.has("admin", "service"):
		return notFound("project", c.Param("id"))
	case p == nil || !caller.has("admin", "service") && len(caller.user.rolesOn(p)) == 0:
		return forbidden("identity:get_project")
	}
	return c.JSON(http.StatusOK, map[string]any{"project": i.projectDocument(p)})
}

func (i *identity) listUsers(c echo.Context) error {
	if !callerOf(c).has("admin") {
		return forbidden("identity:list_users")
	}
	all := []map[string]any{}
	users := i.users.now().Users
	for n := range users {
		all = append(all, i.userDocument(&users[n]))
	}
	return i.list(c, "users", all)
}

// userAsked gives the user in the path, whom administrators and the user may see.
func (i *identity) userAsked(c echo.Context, rule string) (*user, error) {
	caller, u := callerOf(c), i.users.now().user(c.Param("id"))
	switch {
	case u == nil && caller.has("admin"):
		return nil, notFound("user", c.Param("id"))
	case u == nil || u.ID != caller.UserID && !caller.has("admin"):
		return nil, forbidden(rule)
	}
	return u, nil
}

func (i *identity) showUser(c echo.Context) error {
	u, err := i.userAsked(c, "identity:get_user")
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, map[string]any{"user": i.userDocument(u)})
}

func (i *identity) userProjects(c echo.Context) error {
	u, err := i.userAsked(c, "identity:list_user_projects")
	if err != nil {
		return err
	}
	return i.list(c, "projects", i.projectDocuments(i.users.now().projectsOf(u)))
}

func (i *identity) listRoles(c echo.Context) error {
	if !callerOf(c).has("admin") {
		return forbidden("identity:list_roles")
	}
	all := []map[string]any{}
	for _, r := range i.users.now().roles() {
		all = append(all, i.roleDocument(r))
	}
	return i.list(c, "roles", all)
}

func (i *identity) showRole(c echo.Context) error {
	if !callerOf(c).has("admin") {
		return forbidden("identity:get_role")
	}
	all := i.users.now().roles()
	n := slices.IndexFunc(all, func(r role) bool { return r.ID == c.Param("id") })
	if n < 0 {
		return notFound("role", c.Param("id"))
	}
	return c.JSON(http.StatusOK, map[string]any{"role": i.roleDocument(all[n])})
}

func (i *identity) listDomains(c echo.Context) error {
	if !callerOf(c).has("admin") {
		return forbidden("identity:list_domains")
	}
	return i.list(c, "domains", []map[string]any{i.domainDocument()})
}

func (i *identity) showDomain(c echo.Context) error {
	if c.Param("id") != domainID {
		return notFound("domain", c.Param("id"))
	}
	return c.JSON(http.StatusOK, map[string]any{"domain": i.domainDocument()})
}
