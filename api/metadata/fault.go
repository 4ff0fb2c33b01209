package metadata

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"strongroom/api/fault"
	"strongroom/compute"
)

// fail answers an error with its code and one line of text. What went wrong inside
// is the log's business.
func (s *service) fail(err error, c echo.Context) {
	code, text := http.StatusInternalServerError, "An unknown error has occurred. Please try your request again."
	var known *echo.HTTPError
	switch {
	case errors.As(err, &known):
		code, text = known.Code, http.StatusText(known.Code)
		if said, ok := known.Message.(string); ok {
			text = said
		}
	case compute.Is(err, compute.NotFound):
		code, text = http.StatusNotFound, "Not Found"
	case compute.Is(err, compute.Unavailable):
		code, text = http.StatusServiceUnavailable, "The service is unavailable. Please try your request again."
		c.Response().Header().Set("Retry-After", strconv.Itoa(fault.RetryAfter))
	}
	if code >= http.StatusInternalServerError {
		s.Logger.ErrorContext(c.Request().Context(), "no metadata for a server", "path", c.Request().URL.Path, "error", err)
	}
	if err := c.String(code, text+"\n"); err != nil {
		s.Logger.DebugContext(c.Request().Context(), "the proxy has gone", "error", err)
	}
}
