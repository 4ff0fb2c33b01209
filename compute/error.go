package compute

import (
	"errors"
	"fmt"
	"slices"
)

// Kind says what sort of failure an Error is. It decides whether a retry can
// help and which HTTP status a client sees.
type Kind string

// The kinds of failure. Only Unavailable is worth a retry.
const (
	Invalid     Kind = "Invalid"     // the request can never succeed: 400
	Conflict    Kind = "Conflict"    // the thing is in another state: 409
	NotFound    Kind = "NotFound"    // there is no such thing, or none that you may see: 404
	Forbidden   Kind = "Forbidden"   // the caller may not: 403
	Unavailable Kind = "Unavailable" // a service did not answer or is busy: retry
	Corrupt     Kind = "Corrupt"     // data failed its check: never retried, never used
	NoHost      Kind = "NoHost"      // no host can take the server: the server goes to ERROR
	Superseded  Kind = "Superseded"  // another operation has the server: what was asked for did nothing, or is undone: 409
)

// Error is a failure with a kind. Its message carries ids and names, never a
// secret, an export location or a passphrase: it is stored, and shown to operators.
type Error struct {
	Kind    Kind
	Message string
	Cause   error

	public string // the message without what its causes say of a host or a service
}

func (e *Error) Error() string { return e.Message }

func (e *Error) Unwrap() error { return e.Cause }

// Errorf makes an Error of a kind. A %w verb keeps its cause for errors.Is. Users are shown
// the text with the public texts of the errors among args.
func Errorf(kind Kind, format string, args ...any) *Error {
	wrapped := fmt.Errorf(format, args...)
	e := &Error{Kind: kind, Message: wrapped.Error(), Cause: errors.Unwrap(wrapped)}
	shown, errs := slices.Clone(args), 0
	for i, arg := range args {
		if err, ok := arg.(error); ok {
			shown[i], errs = publicError(publicOf(kind, err)), errs+1
		}
	}
	e.public = e.Message
	if errs > 0 {
		e.public = fmt.Errorf(format, shown...).Error()
	}
	return e
}

// KindOf gives the kind of the first Error in err's chain, or "" if there is none.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return ""
}

// Is reports whether err carries the kind.
func Is(err error, kind Kind) bool { return err != nil && KindOf(err) == kind }
