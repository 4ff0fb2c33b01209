// Package microversion negotiates the versions of the compute and the volume API
// and the use of strongroom's own extensions, all named in one request header.
package microversion

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

// Version is a microversion: the minor number behind "2." of the compute API,
// "3." of the volume API, or "1." of the extensions.
type Version int

// The versions that are spoken.
const (
	Min Version = 1
	Max Version = 97
)

// String writes a version of the compute API.
func (v Version) String() string { return Compute.Text(v) }

// A Series is the microversions of one API.
type Series struct {
	Service  string // its name in Header
	Major    int
	Min, Max Version
}

// The series that are spoken.
var (
	Compute = Series{Service: Service, Major: 2, Min: Min, Max: Max}
	Volume  = Series{Service: "volume", Major: 3, Min: 0, Max: 71}
	// Extensions are strongroom's own. 1.1: shares come to guests that run, and go.
	Extensions = Series{Service: ExtensionService, Major: 1, Min: 0, Max: 1}
)

// Text writes a version of the series.
func (s Series) Text(v Version) string { return strconv.Itoa(s.Major) + "." + strconv.Itoa(int(v)) }

// Asked gives the version that a request's Header asks for: Min when it names
// none. The error is a *MalformedError or an *UnsupportedError.
func (s Series) Asked(h http.Header) (Version, error) { return s.read(named(h, s.Service)) }

func (s Series) read(text string) (Version, error) {
	switch text {
	case "":
		return s.Min, nil
	case "latest":
		return s.Max, nil
	}
	m := format.FindStringSubmatch(text)
	if m == nil {
		return s.Min, &MalformedError{Text: text}
	}
	minor, err := strconv.Atoi(m[2])
	if v := Version(minor); err == nil && m[1] == strconv.Itoa(s.Major) && v >= s.Min && v <= s.Max {
		return v, nil
	}
	return s.Min, &UnsupportedError{Text: text, Min: s.Text(s.Min), Max: s.Text(s.Max)}
}

// The request and response headers.
const (
	Header       = "OpenStack-API-Version"
	LegacyHeader = "X-OpenStack-Nova-API-Version"
)

// The service names of Header.
const (
	Service          = "compute"
	ExtensionService = "strongroom"
)

// Negotiated is what a request speaks.
type Negotiated struct {
	Compute Version
	// Extended is set by "strongroom 1.0" or newer: what the design documents ask beyond
	// the compute API is spoken.
	Extended bool
	// Extensions is the minor version of that.
	Extensions Version
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

// Negotiate reads a request's headers to the compute API. No header means 2.1.
// The error is a *MalformedError or an *UnsupportedError.
func Negotiate(h http.Header) (Negotiated, error) {
	text := named(h, Service)
	if text == "" {
		text = strings.TrimSpace(h.Get(LegacyHeader))
	}
	version, err := Compute.read(text)
	if err != nil {
		return Default, err
	}
	extended, extensions, err := Extended(h)
	if err != nil {
		return Default, err
	}
	return Negotiated{Compute: version, Extended: extended, Extensions: extensions}, nil
}

// Extended reports whether a request speaks strongroom's own extensions, and in which version.
// The error is a *MalformedError or an *UnsupportedError.
func Extended(h http.Header) (bool, Version, error) {
	version, err := Extensions.Asked(h)
	return err == nil && named(h, ExtensionService) != "", version, err
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

// Write sets the response headers: what was spoken, and that the answer varies
// with it.
func (n Negotiated) Write(h http.Header) {
	spoken := Service + " " + n.Compute.String()
	if n.Extended {
		spoken += ", " + ExtensionService + " " + Extensions.Text(n.Extensions)
	}
	h.Set(Header, spoken)
	h.Set(LegacyHeader, n.Compute.String())
	h.Set("Vary", Header+", "+LegacyHeader)
}
