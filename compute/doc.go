// Package compute holds the words and rules of the field: servers, disks,
// flavors, images, hosts and operations, and what is allowed between them.
//
// It imports the standard library and google/uuid only. Nothing here does I/O,
// speaks SQL or knows Temporal, so every rule is a pure function that a table
// test can pin.
package compute
