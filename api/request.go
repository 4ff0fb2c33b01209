package api

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/sapcc/go-bits/gopherpolicy"

	"strongroom/api/auth"
	"strongroom/api/fault"
	"strongroom/api/microversion"
	"strongroom/api/validation"
	"strongroom/compute"
)

// Request is one request, as far as it was understood before its handler runs.
type Request struct {
	ID       compute.OperationID  // the request id; the operation it asks for has the same
	Version  microversion.Version // of the compute API
	Extended bool                 // "strongroom 1.0" or newer was named: the extensions are spoken
	// Extensions is the minor version of that; 0, too, where they are not spoken.
	Extensions microversion.Version
	Token      *gopherpolicy.Token
	Query      url.Values // checked against the route's schema

	echo     echo.Context
	began    time.Time
	legacy   bool // at the /v2 endpoint
	dry      bool // nothing is done, and what would be is told
	body     []byte
	document any // the body as JSON
	api      *API
}

// Context is done when the client goes away.
func (r *Request) Context() context.Context { return r.echo.Request().Context() }

// Param gives a named part of the path.
func (r *Request) Param(name string) string {
	value := r.echo.Param(name)
	if r.echo.Request().URL.RawPath == "" {
		return value
	}
	if plain, err := url.PathUnescape(value); err == nil {
		return plain
	}
	return value
}

// Decode reads the body as its schema has accepted it, and not the text: there a key may be given twice, of which the schema saw the last, and at
// the /v2 endpoint keys may be unknown.
func (r *Request) Decode(into any) error {
	if len(r.body) == 0 {
		return fault.BadRequest("Malformed request body")
	}
	if err := r.parse(); err != nil {
		return err
	}
	return validation.Decode(r.document, into)
}

// Has reports whether the body holds a key, at a path of objects: whether the
// client said null or nothing makes a difference in some requests.
func (r *Request) Has(path ...string) bool {
	node := r.document
	for _, key := range path {
		object, ok := node.(map[string]any)
		if !ok {
			return false
		}
		if node, ok = object[key]; !ok {
			return false
		}
	}
	return true
}

// SetHeader sets a header of the answer.
func (r *Request) SetHeader(name, value string) { r.echo.Response().Header().Set(name, value) }

// ProjectID is the project that the token is scoped to.
func (r *Request) ProjectID() string { return r.Token.ProjectScopeUUID() }

// UserID is the user of the token.
func (r *Request) UserID() string { return r.Token.UserUUID() }

// Credential is the authority that an operation of this request acts with.
func (r *Request) Credential() compute.Credential {
	return compute.Credential{ID: r.ID.Derive("credential"), ProjectID: r.ProjectID(), UserID: r.UserID()}
}

// sealed is the request's token as it rests in the database.
func (r *Request) sealed(credential compute.Credential) []byte {
	return r.api.config.Seal.Seal(credential, []byte(r.echo.Request().Header.Get(auth.Header)))
}

// Allowed asks the policy for a rule on something of this project and user.
func (r *Request) Allowed(rule string) bool {
	return r.AllowedOn(rule, r.ProjectID(), r.UserID())
}

// AllowedOn asks the policy for a rule on something of a project and a user.
// A token that is not scoped to a project is allowed nothing.
func (r *Request) AllowedOn(rule, projectID, userID string) bool {
	if r.ProjectID() == "" {
		return false
	}
	c := r.Token.Context
	c.Request = map[string]string{"project_id": projectID, "user_id": userID}
	return r.Token.Enforcer.Enforce(rule, c)
}

// Enforce is Allowed, with the 403 that a refusal is.
func (r *Request) Enforce(rule string) error {
	return r.EnforceOn(rule, r.ProjectID(), r.UserID())
}

// EnforceOn is AllowedOn, with the 403 that a refusal is.
func (r *Request) EnforceOn(rule, projectID, userID string) error {
	if r.AllowedOn(rule, projectID, userID) {
		return nil
	}
	return fault.Errorf(http.StatusForbidden, "Policy doesn't allow %s to be performed.", rule)
}

// IsAdmin reports whether the caller is an administrator of the cloud.
func (r *Request) IsAdmin() bool { return r.Allowed("context_is_admin") }
