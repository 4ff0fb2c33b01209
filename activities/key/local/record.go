package local

import (
	"bytes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"

	"strongroom/activities/secret"
	"strongroom/compute"
)

// record is the content of a secret's file.
type record struct {
	ID        compute.SecretID `json:"id"`
	ProjectID string           `json:"project_id"`
	Name      string           `json:"name"`
	Sealed    []byte           `json:"sealed"` // nonce, ciphertext, tag
}

func (r record) encode() []byte {
	data, err := json.Marshal(r)
	if err != nil {
		panic(err) // strings and bytes always encode
	}
	return data
}

// decode reads a record; only what encode writes, to the byte, is one.
func decode(data []byte) (record, bool) {
	var r record
	err := json.Unmarshal(data, &r)
	return r, err == nil && bytes.Equal(r.encode(), data)
}

// associated is what the seal binds beside the value. Each part carries its
// length, so that no two records give the same bytes.
func (r record) associated() []byte {
	return digestible("strongroom secret 1", r.ID.String(), r.ProjectID, r.Name)
}

func digestible(parts ...string) []byte {
	var out []byte
	for _, part := range parts {
		out = binary.BigEndian.AppendUint32(out, uint32(len(part)))
		out = append(out, part...)
	}
	return out
}

// tagOf is the part of a file's name that stands for a project and a name.
func tagOf(projectID, name string) string {
	sum := sha256.Sum256(digestible(projectID, name))
	return hex.EncodeToString(sum[:16])
}

// seal gives the record with the passphrase sealed into it.
func seal(aead cipher.AEAD, r record, p *secret.Passphrase) (record, error) {
	err := p.Use(func(value []byte) error {
		r.Sealed = aead.Seal(nil, nil, value, r.associated())
		return nil
	})
	if err != nil {
		return record{}, compute.Errorf(compute.Unavailable, "seal secret %s: %w", r.ID, err)
	}
	return r, nil
}

// open gives the passphrase back, or Corrupt.
func (r record) open(aead cipher.AEAD) (*secret.Passphrase, error) {
	value, err := aead.Open(nil, nil, r.Sealed, r.associated())
	if err != nil {
		return nil, compute.Errorf(compute.Corrupt, "secret %s does not open: damaged, or sealed under another master key", r.ID)
	}
	return secret.New(value), nil
}
