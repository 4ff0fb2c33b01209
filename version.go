// Package strongroom holds what all of the repository shares: the version.
package strongroom

import (
	_ "embed" // for VERSION
	"strings"
)

//go:embed VERSION
var file string

// stamped is another version than the file's, of a build with
// -ldflags "-X strongroom.stamped=…": that of a package with patches, say.
var stamped string

// Version is this build's: MAJOR.MINOR.PATCH, with a suffix while it is no release.
// Control workers of different versions work beside each other (see worker), so it
// changes with every release whose workflows differ.
func Version() string {
	if stamped != "" {
		return stamped
	}
	return strings.TrimSpace(file)
}
