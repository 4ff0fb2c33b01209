package pki

import "crypto/hpke"

// Seal encrypts a value so that the owner of the key alone can open it, with the same
// context (RFC 9180, base mode).
func Seal(to []byte, context string, value []byte) ([]byte, error) {
	key, err := kem.NewPublicKey(to)
	if err != nil {
		return nil, err
	}
	return hpke.Seal(key, hpke.HKDFSHA256(), hpke.AES256GCM(), []byte(context), value)
}

// Open decrypts what Seal encrypted.
func (k Keys) Open(context string, sealed []byte) ([]byte, error) {
	return hpke.Open(k.Seal, hpke.HKDFSHA256(), hpke.AES256GCM(), []byte(context), sealed)
}
