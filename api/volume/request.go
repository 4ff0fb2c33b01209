package volume

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"strongroom/api/fault"
	"strongroom/api/urlpath"
	"strongroom/api/validation"
)

// request is one request, as far as it was understood before its handler runs.
type request struct {
	*state
	query url.Values

	echo     echo.Context
	document any // the body as JSON
	api      *API
}

// context is done when the client goes away.
func (r *request) context() context.Context { return r.echo.Request().Context() }

// param gives a named part of the path.
func (r *request) param(name string) string {
	value := r.echo.Param(name)
	if r.echo.Request().URL.RawPath == "" {
		return value
	}
	if plain, err := url.PathUnescape(value); err == nil {
		return plain
	}
	return value
}

// typeID is the id of the type in the path. A 404 when it is no id.
func (r *request) typeID() (uuid.UUID, error) { return parseID(r.param("id")) }

func parseID(text string) (uuid.UUID, error) {
	id, err := uuid.Parse(text)
	if err != nil || len(text) != len(uuid.Nil.String()) { // other spellings of a UUID are no ids here
		return uuid.Nil, notFound(text)
	}
	return id, nil
}

func notFound(id string) error { return fault.NotFound("Volume type %s could not be found.", id) }

// decode reads the body as its schema has accepted it.
func (r *request) decode(into any) error {
	if r.document == nil {
		return fault.BadRequest("Malformed request body")
	}
	return validation.Decode(r.document, into)
}

func (r *request) projectID() string { return r.token.ProjectScopeUUID() }

// allowed asks the policy for a rule on something of the caller's project.
func (r *request) allowed(rule string) bool { return r.allowedOn(rule, r.projectID()) }

// allowedOn asks the policy for a rule on something of a project. A token that is not
// scoped to a project is allowed nothing.
func (r *request) allowedOn(rule, projectID string) bool {
	if r.projectID() == "" {
		return false
	}
	c := r.token.Context
	c.Request = map[string]string{"project_id": projectID, "user_id": r.token.UserUUID()}
	return r.token.Enforcer.Enforce(rule, c)
}

// enforce is allowed, with the 403 that a refusal is.
func (r *request) enforce(rule string) error { return r.enforceOn(rule, r.projectID()) }

// enforceOn is allowedOn, with the 403 that a refusal is.
func (r *request) enforceOn(rule, projectID string) error {
	if r.allowedOn(rule, projectID) {
		return nil
	}
	return fault.Errorf(http.StatusForbidden, "Policy doesn't allow %s to be performed.", rule)
}

// url is the address of something of the API, with the project in it where the
// client put it in.
func (r *request) url(parts ...string) string {
	if id := r.param("project_id"); id != "" {
		parts = append([]string{id}, parts...)
	}
	return r.api.prefix(r.echo.Request()) + Root + "/" + strings.Join(parts, "/")
}

// prefix is what links begin with: scheme, host and, where the client used it, Service.
func (a *API) prefix(r *http.Request) string {
	origin := a.config.Origin.Of(r)
	if isBelow(urlpath.Written(r), Service) {
		return origin + Service
	}
	return origin
}
