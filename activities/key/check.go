package key

import (
	"unicode/utf8"

	"github.com/google/uuid"

	"strongroom/compute"
)

// maxBytes bounds what Create makes, so that a mistaken number is refused.
const maxBytes = 4096

// Missing is the answer to who reads a secret that is not there (EE-40).
func Missing(id compute.SecretID) error {
	return compute.Errorf(compute.NotFound, "read secret %s: the key manager does not have it. Somebody deleted it, and what it opens, one disk or image, stays "+
		"closed until the key manager's operator restores it. Other servers and images have secrets of their own: "+
		"a server can be rebuilt, or made anew of an image whose secret is there. Of a disk that a guest has open its owner can "+
		"still make an image, before the guest stops, with another key than 'same'", id)
}

// Check refuses what no manager can make, with Invalid.
func (in CreateInput) Check() error {
	if in.Bytes < 1 || in.Bytes > maxBytes {
		return compute.Errorf(compute.Invalid, "a secret of %d bytes cannot be made: 1 to %d can", in.Bytes, maxBytes)
	}
	return checkName(in.Credential, in.Name)
}

// Check refuses what no manager can make, with Invalid.
func (in CopyInput) Check() error {
	if in.From.UUID == uuid.Nil {
		return compute.Errorf(compute.Invalid, "a copy of a secret needs that secret")
	}
	return checkName(in.Credential, in.Name)
}

func checkName(owner compute.Credential, name string) error {
	switch {
	case owner.ProjectID == "":
		return compute.Errorf(compute.Invalid, "a secret needs a project that owns it")
	case name == "" || !utf8.ValidString(name+owner.ProjectID):
		return compute.Errorf(compute.Invalid, "a secret needs a name that is text")
	}
	return nil
}
