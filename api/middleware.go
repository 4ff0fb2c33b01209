package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// The endpoints: the compute API, and its older form without microversions.
const (
	rootV21 = "/v2.1"
	rootV2  = "/v2"
)

// state is what is known of a request before it is routed.
type state struct {
	id      compute.OperationID
	spoken  microversion.Negotiated
	refused error // why spoken could not be negotiated; told after the token was checked
	legacy  bool
	token   *gopherpolicy.Token
	failure error // what was answered with a fault, for the log

	namesNothing bool // its path ended in a slash: no resource has an empty name (K33)
}

const stateKey = "strongroom"

func stateOf(c echo.Context) *state { return c.Get(stateKey).(*state) }

// begin is around everything: it names the request, sets the headers that every
// answer has, catches panics and writes the access log.
func (a *API) begin(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		start := a.config.Now()
		s := &state{id: compute.NewOperationID(), legacy: below(c, rootV2)}
		c.Set(stateKey, s)
		s.spoken, s.refused = version(c.Request().Header, s.legacy)
		h := c.Response().Header()
		h.Set("x-openstack-request-id", string(s.id))
		h.Set("x-compute-request-id", string(s.id))
		if !s.legacy {
			s.spoken.Write(h)
		}
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

func below(c echo.Context, root string) bool {
	path := urlpath.Written(c.Request())
	return path == root || strings.HasPrefix(path, root+"/")
}

// authenticate checks the token of everything below an endpoint.
func (a *API) authenticate(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		path := urlpath.Written(c.Request())
		if !strings.HasPrefix(path, rootV21+"/") && !strings.HasPrefix(path, rootV2+"/") {
			return next(c)
		}
		token, err := a.validator.Token(c.Request())
		if err != nil {
			return err
		}
		if stateOf(c).namesNothing {
			return fault.NotFound("The resource could not be found.")
		}
		stateOf(c).token = token
		in, text := c.Request(), c.Request().Header.Get(auth.Header)
		c.SetRequest(in.WithContext(auth.With(in.Context(), auth.Presented{Token: text, ProjectID: token.ProjectScopeUUID()})))
		a.offer(in.Context(), token, text)
		return next(c)
	}
}

// refuse answers with the fault that an error is.
func (a *API) refuse(err error, c echo.Context) {
	if c.Response().Committed {
		return
	}
	if errors.Is(err, echo.ErrNotFound) && !below(c, rootV21) && !below(c, rootV2) {
		_ = a.choices(c)
		return
	}
	s := stateOf(c)
	s.failure = err
	var refusal *auth.Refusal
	if errors.As(err, &refusal) {
		_ = refusal.Write(c.Response()) // a client that is gone is not told
		return
	}
	_ = fault.From(err).Write(c.Response())
}

var globalID = regexp.MustCompile(`^req-[0-9a-fA-F-]{36}$`)

// withoutToken is a path without the token of a console, which is good until it is used.
func withoutToken(path string) string {
	if before, _, found := strings.Cut(path, consoleTokens); found {
		return before + consoleTokens + "…"
	}
	return path
}

// log writes one line for each request. It names no header and no body: what a
// client keeps secret is in those.
func (a *API) log(c echo.Context, s *state, start time.Time) {
	in, out := c.Request(), c.Response()
	attributes := []slog.Attr{
		slog.String("request_id", string(s.id)), slog.String("method", in.Method), slog.String("path", withoutToken(in.URL.Path)),
		slog.Int("status", out.Status), slog.Int64("bytes", out.Size), slog.Duration("took", a.config.Now().Sub(start)),
		slog.String("client", c.RealIP()), slog.String("version", s.spoken.Compute.String()),
	}
	if global := in.Header.Get("X-OpenStack-Request-ID"); globalID.MatchString(global) {
		attributes = append(attributes, slog.String("global_request_id", global))
	}
	if s.token != nil {
		attributes = append(attributes, slog.String("project_id", s.token.ProjectScopeUUID()), slog.String("user_id", s.token.UserUUID()))
	}
	level := slog.LevelInfo
	if in.URL.Path == pathHealth && out.Status == http.StatusOK {
		level = slog.LevelDebug // a balancer asks all the time
	}
	if out.Status >= http.StatusInternalServerError && out.Status != http.StatusNotImplemented { // that is a refusal, and no failure
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
	if inner := errors.Unwrap(err); inner != nil {
		return err.Error() + ": " + inner.Error()
	}
	return err.Error()
}

func encode(w io.Writer, answer any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(answer)
}
