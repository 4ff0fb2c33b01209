package fault_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"strongroom/api/fault"
	"strongroom/api/microversion"
	"strongroom/compute"
)

func TestFrom(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		err  error
		code int
		body string
	}{
		{"invalid", compute.Errorf(compute.Invalid, "no such thing"), 400, `{"badRequest":{"code":400,"message":"no such thing"}}`},
		{"no host", compute.Errorf(compute.NoHost, "No valid host was found."), 400, `{"badRequest":{"code":400,"message":"No valid host was found."}}`},
		{"forbidden", compute.Errorf(compute.Forbidden, "no"), 403, `{"forbidden":{"code":403,"message":"no"}}`},
		{"not found", fmt.Errorf("looking: %w", compute.Errorf(compute.NotFound, "Instance x could not be found.")), 404,
			`{"itemNotFound":{"code":404,"message":"Instance x could not be found."}}`},
		{"conflict", compute.Errorf(compute.Conflict, "busy"), 409, `{"conflictingRequest":{"code":409,"message":"busy"}}`},
		{"unavailable", compute.Errorf(compute.Unavailable, "later"), 503, `{"serviceUnavailable":{"code":503,"message":"later"}}`},
		{"corrupt", compute.Errorf(compute.Corrupt, "bad sum"), 500, `{"computeFault":{"code":500,"message":"bad sum"}}`},
		{"fault", fault.Errorf(501, "never"), 501, `{"notImplemented":{"code":501,"message":"never"}}`},
		{"gone", fault.Errorf(410, "gone"), 410, `{"computeFault":{"code":410,"message":"gone"}}`},
		{"malformed version", &microversion.MalformedError{Text: "x"}, 400,
			`{"badRequest":{"code":400,"message":"API Version String x is of invalid format. Must be of format MajorNum.MinorNum."}}`},
		{"unsupported version", &microversion.UnsupportedError{Text: "2.999", Min: "2.1", Max: "2.97"}, 406,
			`{"computeFault":{"code":406,"message":"Version 2.999 is not supported by the API. Minimum is 2.1 and maximum is 2.97."}}`},
		{"no route", echo.ErrNotFound, 404, `{"itemNotFound":{"code":404,"message":"The resource could not be found."}}`},
		{"no method", echo.ErrMethodNotAllowed, 405, `{"badMethod":{"code":405,"message":"The method specified is not allowed for this resource."}}`},
		{"too large", echo.ErrStatusRequestEntityTooLarge, 413, `{"overLimit":{"code":413,"message":"Request is too large.","retryAfter":"0"}}`},
		{"unknown", fmt.Errorf("with the secret detail: %w", errors.New("inner")), 500,
			`{"computeFault":{"code":500,"message":"Unexpected API Error. Please report this at http://bugs.launchpad.net/nova/ and attach the Nova API log if possible.\n\u003cclass 'errors.errorString'\u003e"}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := httptest.NewRecorder()
			require.NoError(t, fault.From(c.err).Write(w))
			require.Equal(t, c.code, w.Code)
			require.Equal(t, c.body, w.Body.String())
			require.Equal(t, "application/json; charset=UTF-8", w.Header().Get("Content-Type"))
		})
	}
}

// What of the database's errors passes by itself is a 503 that says when to try again, what the client
// may not store a 400, and everything else a 500, whoever asked the database and how it is wrapped.
func TestErrorsOfTheDatabase(t *testing.T) {
	t.Parallel()
	of := func(code string) error {
		return fmt.Errorf("a query: %w", &pgconn.PgError{Code: code, Message: "of the database"})
	}
	const notKnown = "Look before you ask again." // it may have been done: a client that tries again has two
	for name, c := range map[string]struct {
		err     error
		code    int
		message string
	}{
		"statement timeout":     {of("57014"), 503, "The database took too long. Try again."},
		"lock timeout":          {of("55P03"), 503, "Another request changes the same. Try again."},
		"deadlock":              {of("40P01"), 503, "The database is not available. Try again."},
		"too many connections":  {of("53300"), 503, "The database is not available. Try again."},
		"shut down":             {of("57P01"), 503, "The database is not available. Try again."},
		"starts":                {of("57P03"), 503, "The database is not available. Try again."},
		"connection failure":    {of("08006"), 503, "The database is not available. Try again."},
		"not reached":           {fmt.Errorf("x: %w", &pgconn.ConnectError{}), 503, "The database is not reached. Try again."},
		"lost":                  {fmt.Errorf("x: %w", io.ErrUnexpectedEOF), 503, notKnown},
		"reset":                 {fmt.Errorf("x: %w", &net.OpError{Op: "read", Err: errors.New("reset")}), 503, notKnown},
		"a commit's end":        {of("08007"), 503, notKnown},
		"a statement's end":     {of("40003"), 503, notKnown},
		"with a kind":           {compute.Errorf(compute.Unavailable, "later"), 503, "later"},
		"given up":              {context.DeadlineExceeded, 503, "The request was given up before it was answered."},
		"a null character":      {of("22021"), 400, "The request holds a character that cannot be stored."},
		"an invalid expression": {of("2201B"), 400, "The request holds an invalid regular expression."},
		"a broken constraint":   {of("23505"), 500, ""},
		"a wrong statement":     {of("42601"), 500, ""},
		"no code":               {of(""), 500, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := httptest.NewRecorder()
			require.NoError(t, fault.From(c.err).Write(w))
			require.Equal(t, c.code, w.Code)
			if c.message != "" {
				require.Contains(t, w.Body.String(), c.message)
			}
			require.NotContains(t, w.Body.String(), "of the database")
			require.Equal(t, c.code == 503 && c.message != notKnown, w.Header().Get("Retry-After") != "")
		})
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	require.NoError(t, (&fault.Fault{Code: http.StatusTooManyRequests, Message: "slow down", RetryAfter: 7}).Write(w))
	require.Equal(t, "7", w.Header().Get("Retry-After"))
	require.JSONEq(t, `{"overLimit":{"code":429,"message":"slow down","retryAfter":"7"}}`, w.Body.String())
}
