// Package fault is the one place where a failure becomes an HTTP answer of the
// compute API: its status, its name and its body.
package fault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"strongroom/api/microversion"
	"strongroom/compute"
)

// Fault is a failure as a client sees it.
type Fault struct {
	Code       int
	Message    string
	RetryAfter int // seconds; 413, 429 and 503 carry it
	Cause      error
}

func (f *Fault) Error() string { return f.Message }

func (f *Fault) Unwrap() error { return f.Cause }

// Errorf makes a Fault with an HTTP status. Its text is shown to the client.
func Errorf(code int, format string, args ...any) *Fault {
	return &Fault{Code: code, Message: fmt.Sprintf(format, args...)}
}

// BadRequest makes a 400.
func BadRequest(format string, args ...any) *Fault {
	return Errorf(http.StatusBadRequest, format, args...)
}

// NotFound makes a 404.
func NotFound(format string, args ...any) *Fault {
	return Errorf(http.StatusNotFound, format, args...)
}

// Conflict makes a 409.
func Conflict(format string, args ...any) *Fault {
	return Errorf(http.StatusConflict, format, args...)
}

// Forbidden makes a 403.
func Forbidden(format string, args ...any) *Fault {
	return Errorf(http.StatusForbidden, format, args...)
}

// codes says which status each kind of failure is.
var codes = map[compute.Kind]int{
	compute.Invalid:     http.StatusBadRequest,
	compute.NoHost:      http.StatusBadRequest,
	compute.Forbidden:   http.StatusForbidden,
	compute.NotFound:    http.StatusNotFound,
	compute.Conflict:    http.StatusConflict,
	compute.Superseded:  http.StatusConflict,
	compute.Unavailable: http.StatusServiceUnavailable,
	compute.Corrupt:     http.StatusInternalServerError,
}

// From makes a Fault of any error. What is not known becomes a 500 that shows
// the client the error's type and nothing else.
func From(err error) *Fault {
	var f *Fault
	if errors.As(err, &f) {
		return f
	}
	var malformed *microversion.MalformedError
	if errors.As(err, &malformed) {
		return Errorf(http.StatusBadRequest, "%s", malformed.Error())
	}
	var unsupported *microversion.UnsupportedError
	if errors.As(err, &unsupported) {
		return Errorf(http.StatusNotAcceptable, "%s", unsupported.Error())
	}
	var known *compute.Error
	if errors.As(err, &known) {
		code, ok := codes[known.Kind]
		switch {
		case code == http.StatusServiceUnavailable:
			return &Fault{Code: code, Message: known.PublicText(), RetryAfter: RetryAfter, Cause: err}
		case ok:
			return &Fault{Code: code, Message: known.PublicText(), Cause: err}
		}
	}
	var routing *echo.HTTPError
	if errors.As(err, &routing) {
		return fromEcho(routing)
	}
	return unexpected(err)
}

func fromEcho(err *echo.HTTPError) *Fault {
	switch err.Code {
	case http.StatusNotFound:
		return NotFound("The resource could not be found.")
	case http.StatusMethodNotAllowed:
		return Errorf(err.Code, "The method specified is not allowed for this resource.")
	case http.StatusRequestEntityTooLarge:
		return Errorf(err.Code, "Request is too large.")
	default:
		return &Fault{Code: err.Code, Message: fmt.Sprint(err.Message), Cause: err}
	}
}

func unexpected(err error) *Fault {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return &Fault{Code: http.StatusServiceUnavailable, Message: "The request was given up before it was answered.", RetryAfter: RetryAfter, Cause: err}
	}
	if f := ofDatabase(err); f != nil {
		return f
	}
	return &Fault{
		Code: http.StatusInternalServerError,
		Message: "Unexpected API Error. Please report this at http://bugs.launchpad.net/nova/ and attach the Nova API log if possible.\n" +
			fmt.Sprintf("<class '%s'>", strings.TrimPrefix(fmt.Sprintf("%T", root(err)), "*")),
		Cause: err,
	}
}

// root is the innermost error of a chain: its type says what really happened.
func root(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

// names are the faults' names; every other status is a computeFault.
var names = map[int]string{
	http.StatusBadRequest:            "badRequest",
	http.StatusUnauthorized:          "unauthorized",
	http.StatusForbidden:             "forbidden",
	http.StatusNotFound:              "itemNotFound",
	http.StatusMethodNotAllowed:      "badMethod",
	http.StatusConflict:              "conflictingRequest",
	http.StatusRequestEntityTooLarge: "overLimit",
	http.StatusTooManyRequests:       "overLimit",
	http.StatusUnsupportedMediaType:  "badMediaType",
	http.StatusNotImplemented:        "notImplemented",
	http.StatusServiceUnavailable:    "serviceUnavailable",
}

// Name is the key of the fault's body.
func (f *Fault) Name() string {
	if name, ok := names[f.Code]; ok {
		return name
	}
	return "computeFault"
}

// Write answers a request with the fault.
func (f *Fault) Write(w http.ResponseWriter) error {
	details := map[string]any{"code": f.Code, "message": f.Message}
	if f.Code == http.StatusRequestEntityTooLarge || f.Code == http.StatusTooManyRequests {
		details["retryAfter"] = strconv.Itoa(f.RetryAfter)
		w.Header().Set("Retry-After", strconv.Itoa(f.RetryAfter))
	} else if f.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(f.RetryAfter))
	}
	body, err := json.Marshal(map[string]any{f.Name(): details})
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.WriteHeader(f.Code)
	_, err = w.Write(body)
	return err
}
