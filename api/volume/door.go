package volume

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"runtime/debug"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/sapcc/go-bits/gopherpolicy"

	"strongroom/api/auth"
	"strongroom/api/fault"
	"strongroom/api/microversion"
	"strongroom/api/urlpath"
	"strongroom/compute"
)

// state is what is known of a request before it is routed.
type state struct {
	id       compute.OperationID
	version  microversion.Version
	extended bool                 // "strongroom 1.0" or newer was named: the extensions are spoken
	spoken   microversion.Version // of the extensions
	refused  error                // why the version could not be negotiated; told after the token was checked
	token    *gopherpolicy.Token
	failure  error // what was answered with a fault, for the log

	namesNothing bool // its path ended in a slash: no resource has an empty name (K33)
}

const stateKey = "strongroom"

func stateOf(c echo.Context) *state { return c.Get(stateKey).(*state) }

// negotiate settles what is spoken. A refused request is answered at the oldest.
func (s *state) negotiate(h http.Header) {
	if s.version, s.refused = microversion.Volume.Asked(h); s.refused == nil {
		s.extended, s.spoken, s.refused = microversion.Extended(h)
	}
	if s.refused != nil {
		s.version = microversion.Volume.Min
	}
}

func (s *state) writeHeaders(h http.Header) {
	spoken := microversion.Volume.Service + " " + microversion.Volume.Text(s.version)
	if s.extended {
		spoken += ", " + microversion.ExtensionService + " " + microversion.Extensions.Text(s.spoken)
	}
	h.Set(microversion.Header, spoken)
	h.Set("Vary", microversion.Header)
	h.Set("x-openstack-request-id", string(s.id))
	h.Set("x-compute-request-id", string(s.id)) // so it is called in this API too
}

// begin is around everything: it names the request, sets the headers that every
// answer has, catches panics and writes the access log.
func (a *API) begin(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		start := a.config.Now()
		s := &state{id: compute.NewOperationID()}
		c.Set(stateKey, s)
		s.negotiate(c.Request().Header)
		s.writeHeaders(c.Response().Header())
		s.namesNothing = urlpath.TrimSlash(c.Request().URL)
		defer func() {
			if p := recover(); p != nil {
				a.config.Logger.Error("panic", "request_id", s.id, "panic", fmt.Sprintf("%T", p), "stack", string(debug.Stack()))
				a.refuse(fmt.Errorf("panic: %T", p), c)
			}
			a.log(c, s, start)
		}()
		if err := next(c); err != nil {
			a.refuse(err, c)
		}
		return nil
	}
}

// authenticate checks the token of everything but version discovery.
func (a *API) authenticate(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		switch urlpath.Written(c.Request()) {
		case Root, Service, Service + Root:
			return next(c)
		}
		token, err := a.config.Validator.Token(c.Request())
		if err != nil {
			return err
		}
		discovers := c.Request().Method == http.MethodGet && strings.HasSuffix(c.Path(), projectRoot)
		if stateOf(c).namesNothing && !discovers {
			return fault.NotFound("The resource could not be found.")
		}
		stateOf(c).token = token
		return next(c)
	}
}

// refuse answers with the fault that an error is.
func (a *API) refuse(err error, c echo.Context) {
	if c.Response().Committed {
		return
	}
	stateOf(c).failure = err
	var refusal *auth.Refusal
	if errors.As(err, &refusal) {
		_ = refusal.Write(c.Response()) // a client that is gone is not told
		return
	}
	f := fault.From(err)
	if f.Code == http.StatusInternalServerError {
		f = fault.Errorf(f.Code, "The server has either erred or is incapable of performing the requested operation.")
	}
	_ = f.Write(c.Response())
}

var globalID = regexp.MustCompile(`^req-[0-9a-fA-F-]{36}$`)

// log writes one line for each request. It names no header, no body and no query
// string: what a client keeps to itself is in those.
func (a *API) log(c echo.Context, s *state, start time.Time) {
	in, out := c.Request(), c.Response()
	attributes := []slog.Attr{
		slog.String("request_id", string(s.id)), slog.String("method", in.Method), slog.String("path", in.URL.Path),
		slog.Int("status", out.Status), slog.Int64("bytes", out.Size), slog.Duration("took", a.config.Now().Sub(start)),
		slog.String("client", c.RealIP()), slog.String("version", microversion.Volume.Text(s.version)),
	}
	if global := in.Header.Get("X-OpenStack-Request-ID"); globalID.MatchString(global) {
		attributes = append(attributes, slog.String("global_request_id", global))
	}
	if s.token != nil {
		attributes = append(attributes, slog.String("project_id", s.token.ProjectScopeUUID()), slog.String("user_id", s.token.UserUUID()))
	}
	level := slog.LevelInfo
	if out.Status >= http.StatusInternalServerError {
		level = slog.LevelError
		attributes = append(attributes, slog.String("error", why(s.failure)))
	}
	a.config.Logger.LogAttrs(in.Context(), level, "request", attributes...)
}

func why(err error) string {
	var refusal *auth.Refusal
	switch {
	case err == nil:
		return ""
	case errors.As(err, &refusal):
		return refusal.Reason
	}
	return err.Error()
}
