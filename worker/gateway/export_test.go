package gateway

import (
	"maps"
	"slices"
)

// Routes are the patterns of all that a host may ask for.
func Routes() []string { return slices.Sorted(maps.Keys((&Server{}).routes())) }

// HeaderPurpose is the header by which a stream says what it is for.
const HeaderPurpose = headerPurpose
