// Package api serves the OpenStack compute API over strongroom's
// record.
//
// A resource is one file: a method of API that gives its Resource (routes,
// policy rules), its JSON schemas, its handlers and its view. resources.go lists
// them. Everything else a request needs is done before the handler runs, in the
// order of dispatch.go: request id, token, microversion, project of the path,
// body, route, schema, policy. A handler returns the JSON value of its answer,
// or an error; fault makes the one into an HTTP answer.
package api
