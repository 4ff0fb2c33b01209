// Package initializer is what runs in the container that strongroom generate injects: it fetches
// the workload's secret, writes it where the workload looks for it, and opens encrypted volumes
// (RFC 009, PV-11).
//
// What is on a volume:
//
//	new          it reads as zeroes
//	begun        the first block is a note that a format was begun; what follows is of no value
//	formatted    a LUKS2 header, and in what it encrypts an ext4 file system
//
// The header is made in memory and is written when the file system is complete, its first block
// last, in place of the note. So a volume that has a header has a file system, and whatever happens
// no file system is ever made where there is a header: neither a process that is killed nor a read
// error can lead to a second format. Everything else that a volume may hold is refused and stays as
// it is.
package initializer
