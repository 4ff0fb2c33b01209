// Package dev is the ground on which one machine runs everything: each folder
// supervises one service that strongroom uses, for `strongroom dev` and for the
// tests on real services.
//
//	process   a child process that is always collected, found again and stopped by its id
//	forward   TCP connections of namespaces and machines, handed on
//	port      free TCP ports
//	postgres  a PostgreSQL cluster of its own in a folder
//	temporal  the Temporal dev server with its UI and a file database
//	libvirtd  a libvirtd of its own in namespaces
//	with      a command that runs another with a PostgreSQL for the tests
package dev
