package key

import "strongroom/compute"

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
