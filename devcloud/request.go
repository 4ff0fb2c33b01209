package devcloud

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"
)

// maxBody is the largest JSON body that is read.
const maxBody = 1 << 20

// logRequest writes one line per request: no header, query or body, since
// tokens and passwords travel there. It turns a panic into a 500.
func (s *Server) logRequest(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		begin := s.cfg.Now()
		id := "req-" + uuid.NewString()
		c.Response().Header().Set("X-Openstack-Request-Id", id)
		defer func() {
			crash := recover()
			if crash != nil && crash != http.ErrAbortHandler { //nolint:errorlint // the very value, as net/http compares it
				err = fmt.Errorf("panic: %v", crash)
			}
			if err != nil {
				c.Error(err)
			}
			log := s.cfg.Logger.With("request", id, "method", c.Request().Method, "path", c.Request().URL.Path,
				"status", c.Response().Status, "took", s.cfg.Now().Sub(begin).String())
			if c.Response().Status >= http.StatusInternalServerError && c.Response().Status != http.StatusNotImplemented {
				log.ErrorContext(c.Request().Context(), "request failed", "error", err)
			} else {
				log.DebugContext(c.Request().Context(), "request")
			}
			err = nil
			if crash == http.ErrAbortHandler { //nolint:errorlint // as above
				panic(http.ErrAbortHandler)
			}
		}()
		return next(c)
	}
}

// readJSON reads a body of JSON.
func readJSON(c echo.Context, into any) error {
	body, err := io.ReadAll(http.MaxBytesReader(c.Response(), c.Request().Body, maxBody))
	var tooLong *http.MaxBytesError
	switch {
	case errors.As(err, &tooLong):
		return fault(http.StatusRequestEntityTooLarge, "The request body is too large.")
	case err != nil:
		return fault(http.StatusBadRequest, "The request body could not be read.")
	case json.Unmarshal(body, into) != nil: // its error would quote the body
		return fault(http.StatusBadRequest, "The request body is not the JSON that is expected here.")
	}
	return nil
}

// answerError writes an error in the form of the service that was asked.
func answerError(err error, c echo.Context) {
	if c.Response().Committed {
		return
	}
	f := faultOf(c.Request().URL.Path, err)
	if f.Status == http.StatusUnauthorized {
		c.Response().Header().Set("WWW-Authenticate", `Keystone uri="http://`+c.Request().Host+`/identity"`)
	}
	title := http.StatusText(f.Status)
	var body any = map[string]any{"error": map[string]any{"code": f.Status, "title": title, "message": f.Message}}
	if strings.HasPrefix(c.Request().URL.Path, "/image") { // webob's form, in which Glance answers
		body = map[string]any{"code": fmt.Sprintf("%d %s", f.Status, title), "title": title, "message": f.Message}
	}
	if strings.HasPrefix(c.Request().URL.Path, "/network") {
		body = map[string]any{"NeutronError": map[string]string{"type": strings.ReplaceAll(title, " ", ""), "message": f.Message, "detail": ""}}
	}
	if c.Request().Method == http.MethodHead {
		_ = c.NoContent(f.Status)
		return
	}
	_ = c.JSON(f.Status, body)
}
