package devcloud

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"

	"strongroom/compute"
)

// requestFault is an answer that is an error.
type requestFault struct {
	Status  int
	Message string
}

func (f *requestFault) Error() string { return f.Message }

func fault(status int, format string, args ...any) error {
	return &requestFault{Status: status, Message: fmt.Sprintf(format, args...)}
}

// unauthorized is the answer to a failed login and to a bad token: it says no more.
func unauthorized() error {
	return fault(http.StatusUnauthorized, "The request you have made requires authentication.")
}

func forbidden(action string) error {
	return fault(http.StatusForbidden, "You are not authorized to perform the requested action: %s.", action)
}

// faultOf translates what a request for a path came to, the one place where it is done.
func faultOf(path string, err error) *requestFault {
	var own *requestFault
	if errors.As(err, &own) {
		return own
	}
	var route *echo.HTTPError
	if errors.As(err, &route) {
		if words := lacks(path); words != "" {
			return &requestFault{Status: http.StatusNotImplemented, Message: words}
		}
		return &requestFault{Status: route.Code, Message: http.StatusText(route.Code)}
	}
	status, known := map[compute.Kind]int{
		compute.Invalid: http.StatusBadRequest, compute.Conflict: http.StatusConflict, compute.NotFound: http.StatusNotFound,
		compute.Forbidden: http.StatusForbidden, compute.Unavailable: http.StatusServiceUnavailable,
	}[compute.KindOf(err)]
	if !known {
		return &requestFault{Status: http.StatusInternalServerError, Message: "An unexpected error prevented the server from fulfilling your request."}
	}
	return &requestFault{Status: status, Message: err.Error()}
}
