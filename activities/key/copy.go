package key

import (
	"context"
	"crypto/subtle"
	"unicode/utf8"

	"strongroom/activities/secret"
	"strongroom/compute"
)

// The registered names of what reads secrets that are there already; the cloud queue.
const (
	Copy = "key.Copy"
	Look = "key.Look"
)

// CopyInput asks for a secret with another secret's passphrase.
type CopyInput struct {
	Credential     compute.Credential `json:"credential"` // of the project that shall own the copy
	ID             compute.SecretID   `json:"id"`         // as CreateInput's
	Name           string             `json:"name"`       // as CreateInput's
	From           compute.SecretID   `json:"from"`
	FromCredential compute.Credential `json:"from_credential"` // to read From with
}

// LookInput asks whether a credential may read a secret (EE-15, EE-18).
type LookInput struct {
	Credential compute.Credential `json:"credential"`
	Secret     compute.SecretID   `json:"secret"`
}

// Copy is the activity key.Copy.
func (a *Activities) Copy(ctx context.Context, in CopyInput) (CreateResult, error) {
	id, err := a.Manager.Copy(ctx, in)
	return CreateResult{Secret: id}, err
}

// Look is the activity key.Look. NotFound, Forbidden, Corrupt: the credential
// cannot read it; Invalid: what it holds opens no disk, for QEMU takes text only.
func (a *Activities) Look(ctx context.Context, in LookInput) error {
	p, err := a.Manager.Passphrase(ctx, in.Credential, in.Secret)
	if err != nil {
		return err
	}
	defer p.Wipe()
	return p.Use(func(value []byte) error {
		if len(value) == 0 || !utf8.Valid(value) {
			return compute.Errorf(compute.Invalid, "secret %s holds no text: it cannot be a passphrase", in.Secret)
		}
		return nil
	})
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
