// Package urlpath reads request paths as the router does: as they were written, where
// %2F belongs to a name. What decides before the router whether a token is needed must
// read the same path (M9).
package urlpath

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Written is a request's path as it was written.
func Written(r *http.Request) string { return r.URL.EscapedPath() }

// Climbs reports whether a part of a path as it was written is "." or "..", in whatever form: who takes it for a folder above reads
// another path (S8).
func Climbs(written string) bool {
	plain, err := url.PathUnescape(written)
	if err != nil {
		return true
	}
	return slices.ContainsFunc(strings.Split(plain, "/"), func(part string) bool { return part == "." || part == ".." })
}

// GoesOn reports whether a request's path has more parts than its route: the router takes all that is left of it for the last parameter. values
// are those of the parameters, as they were written.
func GoesOn(values []string) bool {
	return len(values) > 0 && strings.Contains(values[len(values)-1], "/")
}

// TrimSlash removes slashes at the end of a path that is more than one slash, and reports whether there were any.
func TrimSlash(u *url.URL) (trimmed bool) {
	before := u.EscapedPath()
	written := strings.TrimRight(before, "/")
	if written == "" {
		written = "/"
	}
	if path, err := url.PathUnescape(written); err == nil {
		u.Path, u.RawPath = path, written
	}
	return written != before
}
