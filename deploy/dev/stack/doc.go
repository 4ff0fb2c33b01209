// Package stack runs all of strongroom on one machine, each part as a process of
// its own: PostgreSQL, strongroom-temporal, libvirtd where none answers,
// the identity and image service, the api, the metadata service, a control worker and
// a host worker.
// Everything is in one state folder; a second start goes on where the first
// stopped.
package stack
