package api

import (
	"errors"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"strongroom/api/fault"
	"strongroom/api/microversion"
	"strongroom/api/urlpath"
	"strongroom/api/validation"
)

// MaxBody is the largest request body that is read, in bytes.
const MaxBody = 114688

// dispatch answers the requests of an endpoint.
func (a *API) dispatch(e *endpoint) echo.HandlerFunc {
	return func(c echo.Context) error {
		s := stateOf(c)
		if s.refused != nil {
			return s.refused
		}
		if urlpath.GoesOn(c.ParamValues()) { // tags/a/b is not the tag a/b (K3)
			return fault.NotFound("The resource could not be found.")
		}
		query, err := url.ParseQuery(c.Request().URL.RawQuery)
		if err != nil {
			return fault.BadRequest("Malformed request URL: the query string cannot be read.")
		}
		r := &Request{
			ID: s.id, Version: s.spoken.Compute, Extended: s.spoken.Extended, Extensions: s.spoken.Extensions, Token: s.token, Query: query,
			echo: c, began: time.Now(), legacy: s.legacy, api: a,
		}
		if in := r.Param("project_id"); in != "" && in != r.ProjectID() {
			return fault.BadRequest("Malformed request URL: URL's project_id '%s' doesn't match Context's project_id '%s'", in, r.ProjectID())
		}
		route, err := r.choose(e)
		if err != nil {
			return err
		}
		if err := r.validate(route); err != nil {
			return err
		}
		if route.Rule != "" {
			if err := r.Enforce(route.Rule); err != nil {
				return err
			}
		}
		answer, err := route.Handle(r)
		if err != nil {
			return err
		}
		if own, ok := answer.(Answer); ok {
			return respond(c, own.Status, own.Body)
		}
		return respond(c, route.Status, answer)
	}
}

// Answer is an answer of a handler whose status is not always the same.
type Answer struct {
	Status int
	Body   any // nil for none
}

// choose reads what there is of a body and finds the route.
func (r *Request) choose(e *endpoint) (Route, error) {
	if e.method == http.MethodPost || e.method == http.MethodPut {
		if err := r.read(); err != nil {
			return Route{}, err
		}
	}
	action := ""
	if e.hasActions() {
		if err := r.parse(); err != nil {
			return Route{}, err
		}
		var err error
		if action, err = r.action(e); err != nil {
			return Route{}, err
		}
	}
	return e.at(action, r.Version)
}

// read takes the body in and checks its content type.
func (r *Request) read() error {
	in := r.echo.Request()
	body, err := io.ReadAll(http.MaxBytesReader(r.echo.Response(), in.Body, MaxBody))
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return echo.ErrStatusRequestEntityTooLarge
	}
	if err != nil {
		return fault.BadRequest("Malformed request body")
	}
	r.body = body
	if len(body) == 0 {
		return nil
	}
	kind, _, err := mime.ParseMediaType(in.Header.Get("Content-Type"))
	if in.Header.Get("Content-Type") == "" {
		return nil
	}
	switch kind {
	case "application/json", "application/vnd.openstack.compute+json", "text/plain":
		return nil
	default:
		return &fault.Fault{Code: http.StatusUnsupportedMediaType, Message: "Unsupported Content-Type", Cause: err}
	}
}

// parse reads the body as JSON. No body is null.
func (r *Request) parse() error {
	if len(r.body) == 0 || r.document != nil {
		return nil
	}
	document, err := validation.Parse(r.body)
	r.document = document
	return err
}

// action gives the one key of the body that names an action.
func (r *Request) action(e *endpoint) (string, error) {
	object, ok := r.document.(map[string]any)
	if !ok || len(object) == 0 {
		return "", fault.BadRequest("Malformed request body")
	}
	keys := slices.Sorted(maps.Keys(object))
	if len(keys) == 1 {
		if !e.knows(keys[0], r.Extended) {
			return "", fault.BadRequest("There is no such action: %s", keys[0])
		}
		return keys[0], nil
	}
	known := slices.IndexFunc(keys, func(key string) bool { return e.knows(key, r.Extended) })
	if known < 0 {
		return "", fault.BadRequest("There is no such action: %s", keys[0])
	}
	others := slices.Delete(slices.Clone(keys), known, known+1)
	verb := "was"
	if len(others) > 1 {
		verb = "were"
	}
	return "", fault.BadRequest("Additional properties are not allowed ('%s' %s unexpected)", strings.Join(others, "', '"), verb)
}

func (r *Request) validate(route Route) error {
	if err := route.Query.Query(r.Query, r.Version); err != nil {
		return err
	}
	body := route.Body
	if r.Extended && route.Extended.Defined() {
		body = route.Extended
	}
	if !body.Defined() {
		return nil
	}
	if err := r.parse(); err != nil {
		return err
	}
	return body.Body(r.document, r.Version, r.legacy)
}

// respond writes an answer as JSON. nil is an answer without a body.
func respond(c echo.Context, status int, answer any) error {
	if status == 0 {
		status = http.StatusOK
	}
	if answer == nil {
		return c.NoContent(status)
	}
	c.Response().Header().Set(echo.HeaderContentType, "application/json")
	c.Response().WriteHeader(status)
	return encode(c.Response(), answer)
}

// version is what a request speaks at an endpoint: /v2 knows no microversions.
func version(h http.Header, legacy bool) (microversion.Negotiated, error) {
	if legacy {
		return microversion.Default, nil
	}
	return microversion.Negotiate(h)
}
