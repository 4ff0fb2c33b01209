// Package local is a share.Service in a folder: a folder per share, for a machine
// that has no other file server than itself.
//
// A share's folder holds its record, a file per access rule and the folder "data",
// which is the export location: a host of the same machine mounts it by binding it.
// The rules are kept, listed and counted as any service does it; they shut nobody
// out, for whoever could reach the folder is root here. Sizes are not enforced either.
package local
