package fault

import (
	"errors"
	"io"
	"net"
	"net/http"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"
)

// RetryAfter is after how many seconds a client is asked to try again what cannot be done now.
const RetryAfter = 5

// PostgreSQL's error codes that are no failure of ours.
const (
	notInRepertoire   = "22021" // text that it cannot keep: the null character
	untranslatable    = "22P05" // and bytes that are no UTF-8
	invalidExpression = "2201B"
	lockNotAvailable  = "55P03"
	queryCanceled     = "57014" // statement_timeout
	idleInTransaction = "25P03"
	unknownEnd        = "08007" // of a transaction
	unknownStatement  = "40003"
)

// passing are the classes of errors that pass by themselves: of the connection (08), serialisation
// failures and deadlocks (40), too many connections, no memory or room (53), it is shut down, has crashed
// or starts (57), and those of the system that it runs on (58).
var passing = []string{"08", "40", "53", "57", "58"}

// Held reports whether the database gave up waiting for what another transaction holds.
func Held(err error) bool { return code(err) == lockNotAvailable }

// TookTooLong reports whether the database ended a statement that took too long.
func TookTooLong(err error) bool { return code(err) == queryCanceled }

// code is PostgreSQL's code of an error, or "".
func code(err error) string {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return refused.Code
	}
	return ""
}

// ofDatabase is the one place where an error of the database becomes an answer. nil: it is none, or
// the database refused what the api should not have asked (fence.Unavailable). What passes by itself is a
// 503 for every handler.
func ofDatabase(err error) *Fault {
	busy := func(message string) *Fault {
		return &Fault{Code: http.StatusServiceUnavailable, Message: message, RetryAfter: RetryAfter, Cause: err}
	}
	// Who asks again at once might have it done twice.
	unknown := func(message string) *Fault {
		return &Fault{Code: http.StatusServiceUnavailable, Message: message, Cause: err}
	}
	var unreached *pgconn.ConnectError
	if errors.As(err, &unreached) || pgconn.SafeToRetry(err) {
		return busy("The database is not reached. Try again.")
	}
	var broken *net.OpError
	if errors.As(err, &broken) || errors.Is(err, io.ErrUnexpectedEOF) {
		return unknown("The connection to a service was lost, and it is not known whether the request took effect. Look before you ask again.")
	}
	c := code(err)
	if c == unknownEnd || c == unknownStatement {
		return unknown("The database does not know whether the request took effect. Look before you ask again.")
	}
	switch c {
	case notInRepertoire, untranslatable:
		return &Fault{Code: http.StatusBadRequest, Message: "The request holds a character that cannot be stored.", Cause: err}
	case invalidExpression:
		return &Fault{Code: http.StatusBadRequest, Message: "The request holds an invalid regular expression.", Cause: err}
	case lockNotAvailable:
		return busy("Another request changes the same. Try again.")
	case queryCanceled, idleInTransaction:
		return busy("The database took too long. Try again.")
	}
	if len(c) == 5 && slices.Contains(passing, c[:2]) {
		return busy("The database is not available. Try again.")
	}
	return nil
}
