// Package devcloud is just enough cloud for one machine: an identity service
// (v3) over a file of projects, users and assignments of roles, which administrators change, an image service (v2) over an image library and, to read, a network service
// (v2.0) over strongroom's own ports.
// The standard clients and strongroom's one way of checking tokens work with it
// as with any OpenStack. It listens on loopback only.
//
// They share one address, as /identity, /image and /network.
package devcloud
