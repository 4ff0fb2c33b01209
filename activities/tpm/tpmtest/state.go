// Package tpmtest has what tests take for the state of a vTPM.
package tpmtest

import "encoding/binary"

// swtpm's header of a file: version, least version, its own length, flags, and the length of all (2+2+2+4 bytes).
const headerBytes = 10

// State is a permanent file as swtpm writes it, with a text in place of what the TPM keeps.
func State(text string) []byte {
	out := []byte{2, 1, 0, headerBytes, 0, 1}
	out = binary.BigEndian.AppendUint32(out, uint32(headerBytes+len(text)))
	return append(out, text...)
}

// Text is the text of such a file.
func Text(state []byte) string { return string(state[min(headerBytes, len(state)):]) }
