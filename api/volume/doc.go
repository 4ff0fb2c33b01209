// Package volume is the volume types part of the OpenStack block storage API,
// microversions 3.0 to 3.71, over strongroom's record.
//
// A resource is one file: the routes, their JSON schemas, handlers and views.
// dispatch.go says in which order a request is looked at. Who sees which extra
// spec is decided in one place: reading.go gives every query the keys that its
// caller may read, and no other extra spec leaves the database or takes part in
// what matches. So nothing that a caller can ask, filter, sort or measure differs
// between a key that is hidden and one that is not there (VT-05, VT-11).
package volume
