// Package integration holds the end-to-end suites: the real binary, run by
// `strongroom dev` in a state folder of its own, on real PostgreSQL, Temporal,
// libvirt, QEMU and swtpm. Guests answer on their serial line.
package integration
