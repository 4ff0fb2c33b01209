package key

import (
	"crypto/subtle"

	"strongroom/activities/secret"
	"strongroom/compute"
)

// CopyInput asks for a secret with another secret's passphrase.
type CopyInput struct {
	Credential     compute.Credential `json:"credential"` // of the project that shall own the copy
	ID             compute.SecretID   `json:"id"`         // as CreateInput's
	Name           string             `json:"name"`       // as CreateInput's
	From           compute.SecretID   `json:"from"`
	FromCredential compute.Credential `json:"from_credential"` // to read From with
}

// CheckCopy says Conflict when a secret that has the name of a copy has another
// passphrase than its source.
func (in CopyInput) CheckCopy(id compute.SecretID, source, found *secret.Passphrase) error {
	return source.Use(func(want []byte) error {
		return found.Use(func(have []byte) error {
			if subtle.ConstantTimeCompare(want, have) != 1 {
				return compute.Errorf(compute.Conflict, "secret %s has the name of a copy of secret %s and another passphrase", id, in.From)
			}
			return nil
		})
	})
}
