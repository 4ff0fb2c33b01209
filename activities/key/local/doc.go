// Package local is a key manager in a folder: one file per secret, sealed with
// AES-256-GCM under a master key that lies in a file of its own.
//
// A secret's file is called "<id>.<tag>", where the tag is a digest of project
// and name. One directory entry is therefore the secret, its id and its place
// in the index of names: it appears by one rename and goes by one unlink, so a
// crash at any point leaves a whole secret or none.
//
// What is in clear in a file (id, project, name) is the seal's associated data:
// a file whose words were changed, or that was moved to another id, does not open.
package local
