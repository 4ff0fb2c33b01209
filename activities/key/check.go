package key

import (
	"unicode/utf8"

	"strongroom/compute"
)

// maxBytes bounds what Create makes, so that a mistaken number is refused.
const maxBytes = 4096

// Check refuses what no manager can make, with Invalid.
func (in CreateInput) Check() error {
	switch {
	case in.Credential.ProjectID == "":
		return compute.Errorf(compute.Invalid, "a secret needs a project that owns it")
	case in.Name == "" || !utf8.ValidString(in.Name+in.Credential.ProjectID):
		return compute.Errorf(compute.Invalid, "a secret needs a name that is text")
	case in.Bytes < 1 || in.Bytes > maxBytes:
		return compute.Errorf(compute.Invalid, "a secret of %d bytes cannot be made: 1 to %d can", in.Bytes, maxBytes)
	}
	return nil
}
