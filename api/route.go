package api

import (
	"fmt"

	"strongroom/api/fault"
	"strongroom/api/microversion"
	"strongroom/api/policy"
	"strongroom/api/validation"
)

// Resource is a part of the API: its routes, and the policy rules that they
// name with what each asks for by default.
type Resource struct {
	Rules  policy.Rules
	Routes []Route
}

// Route is one method of a resource over a range of microversions. Several
// routes may share method and path when their ranges, or their actions, differ.
type Route struct {
	Method string
	Path   string // below the endpoint and the project: "/flavors/:id"
	Action string // the key of the body that names the action; "" when the path is no action path

	Min, Max microversion.Version // zero: from the oldest, to the newest

	Rule string              // the policy rule; "" when the handler enforces by itself
	Body validation.Versions // the schema of the body; undefined: the body is not read
	// Extended is the schema in place of Body for who speaks strongroom's own
	// extensions; undefined: Body.
	Extended validation.Versions
	// Own marks what is strongroom's own: who does not speak its extensions is told that there is
	// no such action, or, by the handler, no such resource.
	Own bool
	// Refused says of a route that nobody's request is granted why.
	Refused string

	Query  validation.Versions // the schema of the query string; undefined: anything goes
	Status int                 // of success; default 200
	Handle func(*Request) (any, error)
}

func (r Route) covers(v microversion.Version) bool {
	return v >= r.Min && (r.Max == 0 || v <= r.Max)
}

// endpoint is all routes of one method and path.
type endpoint struct {
	method, path string
	routes       []Route
}

// gather sorts the routes into endpoints and checks them against the rules.
func gather(resources []Resource, rules policy.Rules) ([]*endpoint, error) {
	var all []*endpoint
	known := map[string]*endpoint{}
	for _, resource := range resources {
		for _, route := range resource.Routes {
			name := route.Method + " " + route.Path
			if _, ok := rules[route.Rule]; !ok && route.Rule != "" {
				return nil, fmt.Errorf("api: %s names rule %s, which does not exist", name, route.Rule)
			}
			e := known[name]
			if e == nil {
				e = &endpoint{method: route.Method, path: route.Path}
				known[name], all = e, append(all, e)
			}
			for _, other := range e.routes {
				if other.Action == route.Action && (other.covers(route.Min) || route.covers(other.Min)) {
					return nil, fmt.Errorf("api: %s %s is routed twice", name, route.Action)
				}
			}
			e.routes = append(e.routes, route)
		}
	}
	return all, nil
}

func (e *endpoint) hasActions() bool {
	for _, r := range e.routes {
		if r.Action != "" {
			return true
		}
	}
	return false
}

// at finds the route of an action at a version. A 404 when there is none.
func (e *endpoint) at(action string, v microversion.Version) (Route, error) {
	for _, r := range e.routes {
		if r.Action == action && r.covers(v) {
			return r, nil
		}
	}
	return Route{}, fault.NotFound("API version %s is not supported on this method.", v)
}

func (e *endpoint) knows(action string, extended bool) bool {
	for _, r := range e.routes {
		if r.Action == action && (extended || !r.Own) {
			return true
		}
	}
	return false
}
