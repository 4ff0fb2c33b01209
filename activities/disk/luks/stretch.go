package luks

import (
	"crypto/hmac"
	"crypto/subtle"
	"encoding/binary"
	"hash"
)

// stretch is PBKDF2 (RFC 8018) with HMAC. That of Go's library makes a string of the
// passphrase, which nobody can wipe.
func stretch(passphrase, salt []byte, rounds, length int, newHash func() hash.Hash) []byte {
	mac := hmac.New(newHash, passphrase)
	var out []byte
	for block := uint32(1); len(out) < length; block++ {
		mac.Reset()
		mac.Write(salt)
		mac.Write(binary.BigEndian.AppendUint32(nil, block))
		last := mac.Sum(nil)
		sum := append([]byte(nil), last...)
		for range rounds - 1 {
			mac.Reset()
			mac.Write(last)
			last = mac.Sum(last[:0])
			subtle.XORBytes(sum, sum, last)
		}
		out = append(out, sum...)
	}
	return out[:length]
}
