package volume

import "net/url"

// A Routed is a route of the API, for tests that have a case for each.
type Routed struct {
	Method, Path string
	Status       int // of success; 0: 200
}

// Routes are all routes below the endpoint and the project.
func Routes() []Routed {
	var all []Routed
	for _, r := range (&API{}).routes() {
		all = append(all, Routed{r.method, r.path, r.status})
	}
	return all
}

// SortKeys are the names of what a list is sorted by, in turn, as a query says.
func SortKeys(q url.Values) (names []string, err error) {
	keys, err := order(q)
	for _, k := range keys {
		names = append(names, k.name)
	}
	return names, err
}
