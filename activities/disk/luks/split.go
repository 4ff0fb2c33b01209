package luks

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
	"hash"
)

func newAES(key []byte) (cipher.Block, error) { return aes.NewCipher(key) }

// split inflates a key into stripes of which every byte is needed to get it
// back: all but the last are random, the last is what their mixture turns into
// the key. Wiping any small part of it on disk destroys the key (AFsplit).
func split(key []byte, stripes int, newHash func() hash.Hash) []byte {
	out := make([]byte, len(key)*stripes)
	last := len(out) - len(key)
	_, _ = rand.Read(out[:last]) // never fails
	mixture := mix(out[:last], len(key), newHash)
	defer clear(mixture)
	subtle.XORBytes(out[last:], mixture, key)
	return out
}

// merge gets the key back (AFmerge).
func merge(stripes []byte, keyBytes int, newHash func() hash.Hash) []byte {
	last := len(stripes) - keyBytes
	key := mix(stripes[:last], keyBytes, newHash)
	subtle.XORBytes(key, key, stripes[last:])
	return key
}

// mix is what all stripes but the last come to.
func mix(stripes []byte, keyBytes int, newHash func() hash.Hash) []byte {
	mixture := make([]byte, keyBytes)
	for at := 0; at < len(stripes); at += keyBytes {
		subtle.XORBytes(mixture, mixture, stripes[at:at+keyBytes])
		diffuse(mixture, newHash)
	}
	return mixture
}

// diffuse hashes a block piece by piece, each with its number, so that every
// bit of a piece depends on all of it.
func diffuse(block []byte, newHash func() hash.Hash) {
	size := newHash().Size()
	for i, at := uint32(0), 0; at < len(block); i, at = i+1, at+size {
		piece := block[at:min(at+size, len(block))]
		h := newHash()
		var number [4]byte
		binary.BigEndian.PutUint32(number[:], i)
		h.Write(number[:])
		h.Write(piece)
		copy(piece, h.Sum(nil))
	}
}
