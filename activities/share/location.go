package share

import (
	"fmt"
	"io"
	"log/slog"
)

// Location is an export location: where a share is mounted from. It is for the
// mount alone (SH-25): it prints as a placeholder and is written nowhere.
type Location struct {
	Preferred bool
	path      func() string // a closure: what walks structs by reflection sees an address
}

// NewLocation makes a location of the service's words.
func NewLocation(path string, preferred bool) Location {
	return Location{Preferred: preferred, path: func() string { return path }}
}

// Path is the location itself: "<host>:/<path>" for NFS,
// "<monitor>[,<monitor>…]:/<path>" for CEPHFS, a folder for LOCAL.
func (l Location) Path() string {
	if l.path == nil {
		return ""
	}
	return l.path()
}

const unsaid = "[export location]"

// String gives a placeholder.
func (l Location) String() string { return unsaid }

// GoString gives a placeholder.
func (l Location) GoString() string { return unsaid }

// Format prints a placeholder for every verb and flag.
func (l Location) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, unsaid) }

// LogValue gives a placeholder.
func (l Location) LogValue() slog.Value { return slog.StringValue(unsaid) }

// MarshalText always fails, so that no encoder takes it.
func (l Location) MarshalText() ([]byte, error) {
	return nil, fmt.Errorf("share: an export location is not written down")
}
