package volume

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"

	"strongroom/api/fault"
	"strongroom/api/microversion"
	"strongroom/api/urlpath"
	"strongroom/api/validation"
)

// MaxBody is the largest request body that is read, in bytes.
const MaxBody = 114688

// route is one method of a resource.
type route struct {
	method string
	path   string              // below the endpoint and the project: "/types/:id"
	rule   string              // the policy rule; "" when the handler enforces by itself
	also   []string            // the rules that the handler enforces
	query  []string            // the parameters that are looked at
	body   validation.Versions // the schema of the body; undefined: the body is not checked
	status int                 // of success; default 200
	handle func(*request) (any, error)

	actions map[string]action // by the key of the body that names one; each has its own rule and schema
}

// always is a schema that is the same at every version, 3.0 among them.
func always(s validation.Schema) validation.Versions {
	return validation.Since(func(microversion.Version) validation.Schema { return s }, microversion.Volume.Min)
}

// dispatch answers the requests of a route: version, project of the path, body,
// policy, handler, in this order.
func (a *API) dispatch(r route) echo.HandlerFunc {
	return func(c echo.Context) error {
		s := stateOf(c)
		if s.refused != nil {
			return s.refused
		}
		if urlpath.GoesOn(c.ParamValues()) {
			return fault.NotFound("The resource could not be found.")
		}
		query, err := url.ParseQuery(c.Request().URL.RawQuery)
		if err != nil {
			return fault.BadRequest("Malformed request url")
		}
		in := &request{state: s, query: query, echo: c, api: a}
		if id := in.param("project_id"); id != "" && id != in.projectID() {
			return fault.BadRequest("Malformed request url")
		}
		if r.method == http.MethodPost || r.method == http.MethodPut {
			if err := in.read(); err != nil {
				return err
			}
		}
		if r.body.Defined() {
			if err := r.body.Body(in.document, s.version, false); err != nil {
				return err
			}
		}
		if r.rule != "" {
			if err := in.enforce(r.rule); err != nil {
				return err
			}
		}
		answer, err := r.handle(in)
		if err != nil {
			return err
		}
		return respond(c, r.status, answer)
	}
}

// read takes the body in, as JSON. No body is null.
func (r *request) read() error {
	in := r.echo.Request()
	body, err := io.ReadAll(http.MaxBytesReader(r.echo.Response(), in.Body, MaxBody))
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return echo.ErrStatusRequestEntityTooLarge
	}
	if err != nil {
		return fault.BadRequest("Malformed request body")
	}
	if len(body) == 0 {
		return nil
	}
	if text := in.Header.Get(echo.HeaderContentType); text != "" {
		switch kind, _, err := mime.ParseMediaType(text); kind {
		case "application/json", "application/vnd.openstack.volume+json", "text/plain":
		default:
			return &fault.Fault{Code: http.StatusUnsupportedMediaType, Message: "Unsupported Content-Type", Cause: err}
		}
	}
	r.document, err = validation.Parse(body)
	return err
}

// respond writes an answer as JSON. nil is an answer without a body.
func respond(c echo.Context, status int, answer any) error {
	if status == 0 {
		status = http.StatusOK
	}
	if answer == nil {
		return c.NoContent(status)
	}
	c.Response().Header().Set(echo.HeaderContentType, echo.MIMEApplicationJSON)
	c.Response().WriteHeader(status)
	e := json.NewEncoder(c.Response())
	e.SetEscapeHTML(false) // "<is> True" stays readable
	return e.Encode(answer)
}
