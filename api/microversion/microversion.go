// Package microversion negotiates the version of the compute API and the use of
// strongroom's own extensions, both named in one request header.
package microversion

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

// Version is a microversion of the compute API: the minor number behind "2.".
type Version int

// The versions that are spoken.
const (
	Min Version = 1
	Max Version = 97
)

func (v Version) String() string { return "2." + strconv.Itoa(int(v)) }

// The request and response headers.
const (
	Header       = "OpenStack-API-Version"
	LegacyHeader = "X-OpenStack-Nova-API-Version"
)

// The service names of Header, and the one version of the extensions.
const (
	Service          = "compute"
	ExtensionService = "strongroom"
	ExtensionVersion = "1.0"
)

// Negotiated is what a request speaks.
type Negotiated struct {
	Compute Version
	// Extended is set by "strongroom 1.0": what the design documents ask beyond
	// the compute API is spoken.
	Extended bool
}

// Default is what is spoken with a client that does not say.
var Default = Negotiated{Compute: Min}

// MalformedError is a version that cannot be read: 400.
type MalformedError struct{ Text string }

func (e *MalformedError) Error() string {
	return fmt.Sprintf("API Version String %s is of invalid format. Must be of format MajorNum.MinorNum.", e.Text)
}

// UnsupportedError is a well-formed version that is not spoken: 406.
type UnsupportedError struct{ Text, Min, Max string }

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("Version %s is not supported by the API. Minimum is %s and maximum is %s.", e.Text, e.Min, e.Max)
}

// Negotiate reads a request's headers. No header means 2.1. The error is a
// *MalformedError or an *UnsupportedError.
func Negotiate(h http.Header) (Negotiated, error) {
	n := Default
	text := named(h, Service)
	if text == "" {
		text = strings.TrimSpace(h.Get(LegacyHeader))
	}
	if text != "" {
		v, err := parse(text)
		if err != nil {
			return Default, err
		}
		n.Compute = v
	}
	switch text := named(h, ExtensionService); text {
	case "":
	case ExtensionVersion, "latest":
		n.Extended = true
	default:
		if !format.MatchString(text) {
			return Default, &MalformedError{Text: text}
		}
		return Default, &UnsupportedError{Text: text, Min: ExtensionVersion, Max: ExtensionVersion}
	}
	return n, nil
}

// named gives the version that Header asks of a service. When it names the
// service more than once, the last one counts.
func named(h http.Header, service string) string {
	version := ""
	for _, line := range h.Values(Header) {
		for item := range strings.SplitSeq(line, ",") {
			name, text, found := strings.Cut(strings.TrimSpace(item), " ")
			if found && strings.EqualFold(name, service) {
				version = strings.TrimSpace(text)
			}
		}
	}
	return version
}

var format = regexp.MustCompile(`^([1-9]\d*)\.([1-9]\d*|0)$`)

func parse(text string) (Version, error) {
	if text == "latest" {
		return Max, nil
	}
	m := format.FindStringSubmatch(text)
	if m == nil {
		return 0, &MalformedError{Text: text}
	}
	minor, err := strconv.Atoi(m[2])
	if m[1] != "2" || err != nil || Version(minor) < Min || Version(minor) > Max {
		return 0, &UnsupportedError{Text: text, Min: Min.String(), Max: Max.String()}
	}
	return Version(minor), nil
}

// Write sets the response headers: what was spoken, and that the answer varies
// with it.
func (n Negotiated) Write(h http.Header) {
	spoken := Service + " " + n.Compute.String()
	if n.Extended {
		spoken += ", " + ExtensionService + " " + ExtensionVersion
	}
	h.Set(Header, spoken)
	h.Set(LegacyHeader, n.Compute.String())
	h.Set("Vary", Header+", "+LegacyHeader)
}
