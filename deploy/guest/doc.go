// Package guest builds the tiny guest that tests and the demo boot: Debian's
// cloud kernel and one static Go program as pid 1 (./init), which tells on the
// serial console what machine it finds: disks, boots counted on its root disk,
// TPM. The image boots by itself from a BIOS, in about 2.5 s of emulation, or
// 6 s with a vTPM; it has no partition table, and 17 MB as qcow2.
package guest
