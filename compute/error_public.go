package compute

import (
	"cmp"
	"errors"
	"regexp"
)

// What users read of an error whose own text is for operators: what they can do.
var general = map[Kind]string{
	Invalid:     "it cannot be done as it was asked for; check the request",
	Conflict:    "its state does not allow that; look at it and try again",
	NotFound:    "something that it needs is not there",
	Forbidden:   "it is not allowed; check your roles, and try again with a new token",
	Unavailable: "a host or a service could not do it; try again later",
	Corrupt:     "data is missing or damaged; ask the cloud's operator, who finds more under the request id",
	Superseded:  "another operation has taken it over; look at it and try again",
	NoHost:      "no host can do it now; try again later, or ask the cloud's operator",
	"":          "an error inside of the service; ask the cloud's operator, who finds more under the request id",
}

// PublicText is what users are shown of the error.
func (e *Error) PublicText() string { return cmp.Or(e.public, publicOf(e.Kind, nil)) }

// Public is what users are shown of any error: no path, no address, nothing that a program
// wrote. Operators find the whole text in the trail and the logs.
func Public(err error) string { return withoutPlaces(KindOf(err), publicOf(KindOf(err), err)) }

// Told gives an error back that came through Temporal: its whole message, and what its
// users are shown.
func Told(kind Kind, message, public string) *Error {
	return &Error{Kind: kind, Message: message, public: public}
}

// publicOf gives the public text of the first error of err's chain that has one.
func publicOf(kind Kind, err error) string {
	var known interface{ PublicText() string }
	if errors.As(err, &known) {
		return known.PublicText()
	}
	if text, ok := general[kind]; ok {
		return text
	}
	return general[""]
}

type publicError string

func (e publicError) Error() string { return string(e) }

// place is what looks like a path of two parts and more, or like a URL.
var place = regexp.MustCompile(`(^|[^\w./-])/[\w.-]+/\w|\w://`)

// withoutPlaces gives the general text of a kind instead of one that names a path or a URL.
func withoutPlaces(kind Kind, text string) string {
	if place.MatchString(text) {
		return publicOf(kind, nil)
	}
	return text
}
