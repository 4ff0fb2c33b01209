package luks

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
)

func newAES(key []byte) (cipher.Block, error) { return aes.NewCipher(key) }

// split inflates a key into stripes of which every byte is needed to get it
// back: all but the last are random, the last is what their mixture turns into
// the key. Wiping any small part of it on disk destroys the key (AFsplit).
func split(key []byte) []byte {
	out := make([]byte, len(key)*stripes)
	mixture := make([]byte, len(key))
	defer clear(mixture)
	last := len(out) - len(key)
	_, _ = rand.Read(out[:last]) // never fails
	for at := 0; at < last; at += len(key) {
		subtle.XORBytes(mixture, mixture, out[at:at+len(key)])
		diffuse(mixture)
	}
	subtle.XORBytes(out[last:], mixture, key)
	return out
}

// diffuse hashes a block piece by piece, each with its number, so that every
// bit of a piece depends on all of it.
func diffuse(block []byte) {
	for i, at := uint32(0), 0; at < len(block); i, at = i+1, at+sha256.Size {
		piece := block[at:min(at+sha256.Size, len(block))]
		h := sha256.New()
		var number [4]byte
		binary.BigEndian.PutUint32(number[:], i)
		h.Write(number[:])
		h.Write(piece)
		copy(piece, h.Sum(nil))
	}
}
