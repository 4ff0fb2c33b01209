// Package seal closes values that rest in the database, so that who has the
// database alone cannot read them: AES-256-GCM, under a key that rests in a file.
package seal

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"

	"strongroom/compute"
)

// KeyBytes is the length of a key.
const KeyBytes = 32

// labelBytes name the key of a sealed value.
const labelBytes = 4

// Box seals and opens. It is safe for use by several goroutines.
type Box struct {
	keys []key // the first seals, all open
}

type key struct {
	label []byte
	aead  cipher.AEAD
}

// Parse reads the keys of a file: one per line, as 64 hex digits. The first one
// seals, the others open what they sealed when they were first: a new key goes on
// top and the old one stays until nothing of its time is left. Invalid: there is
// none, or a line is no key.
func Parse(file []byte) (*Box, error) {
	b := &Box{}
	for n, line := range bytes.Fields(file) {
		raw := make([]byte, hex.DecodedLen(len(line)))
		if _, err := hex.Decode(raw, line); err != nil || len(raw) != KeyBytes {
			return nil, compute.Errorf(compute.Invalid, "key %d is not %d hex digits", n+1, 2*KeyBytes)
		}
		block, err := aes.NewCipher(raw)
		if err != nil {
			return nil, err
		}
		aead, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(append([]byte("strongroom key label "), raw...))
		clear(raw)
		b.keys = append(b.keys, key{label: sum[:labelBytes], aead: aead})
	}
	if len(b.keys) == 0 {
		return nil, compute.Errorf(compute.Invalid, "the file holds no key: openssl rand -hex %d makes one", KeyBytes)
	}
	return b, nil
}

// NewKey makes the text of a key for a file.
func NewKey() string {
	raw := make([]byte, KeyBytes)
	_, _ = rand.Read(raw) // never fails
	return hex.EncodeToString(raw) + "\n"
}

// version is the first byte of what is sealed for a credential with its project and user.
// What was sealed before begins with the label of its key and is bound to the id alone.
const version = 2

// Seal closes a value. It opens again only for the same credential: its id, project and user.
func (b *Box) Seal(of compute.Credential, value []byte) []byte { return b.seal(bound(of), value) }

// SealSum closes what passphrases of a secret are compared with. It opens again only for the same server and secret.
func (b *Box) SealSum(server compute.ServerID, id compute.SecretID, sum []byte) []byte {
	return b.seal(boundSum(server, id), sum)
}

func (b *Box) seal(boundTo, value []byte) []byte {
	return b.keys[0].aead.Seal(b.Prefix(), nil, value, boundTo)
}

// Prefix is what all begins with that Seal closes. What begins with another one was closed with
// another key, or by an earlier release.
func (b *Box) Prefix() []byte { return append([]byte{version}, b.keys[0].label...) }

// bound is what a sealed value is bound to. No two credentials give the same.
func bound(of compute.Credential) []byte {
	out := append([]byte("strongroom credential"), version)
	for _, part := range []string{string(of.ID[:]), of.ProjectID, of.UserID} {
		out = append(binary.BigEndian.AppendUint32(out, uint32(len(part))), part...)
	}
	return out
}

func boundSum(server compute.ServerID, id compute.SecretID) []byte {
	return slices.Concat([]byte("strongroom secret sum"), server.UUID[:], id.UUID[:])
}

// UnsealSum opens what SealSum closed; false: it was changed, belongs to another secret, or its key is not in the file.
func (b *Box) UnsealSum(server compute.ServerID, id compute.SecretID, sealed []byte) (sum []byte, ok bool) {
	return b.unseal(boundSum(server, id), sealed)
}

func (b *Box) unseal(boundTo, sealed []byte) (value []byte, ok bool) {
	now, ok := bytes.CutPrefix(sealed, []byte{version})
	if !ok {
		return nil, false
	}
	return b.open(now, boundTo)
}

// Unseal opens what Seal closed, also what earlier releases did. Corrupt: it was changed,
// belongs to another credential, or its key is not in the file.
func (b *Box) Unseal(of compute.Credential, sealed []byte) ([]byte, error) {
	if value, ok := b.unseal(bound(of), sealed); ok {
		return value, nil
	}
	if value, ok := b.open(sealed, of.ID[:]); ok {
		return value, nil
	}
	return nil, compute.Errorf(compute.Corrupt, "what is sealed for %s cannot be opened: it was changed, or its key is not in the file", of.ID)
}

func (b *Box) open(sealed, boundTo []byte) ([]byte, bool) {
	for _, k := range b.keys {
		if rest, ok := bytes.CutPrefix(sealed, k.label); ok {
			if value, err := k.aead.Open(nil, nil, rest, boundTo); err == nil {
				return value, true
			}
		}
	}
	return nil, false
}
