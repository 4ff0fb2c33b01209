// Package devcloud is just enough cloud for one machine: an identity service
// (v3) over a file of users, and an image service (v2) over an image library.
// The standard clients and strongroom's one way of checking tokens work with it
// as with any OpenStack. It listens on loopback only.
//
// Both services share one address, as /identity and /image.
package devcloud
