package trust

import (
	"unicode/utf8"

	"strongroom/compute"
)

// Check refuses what no keeper can make, with Invalid.
func (in CreateInput) Check() error {
	switch {
	case in.Credential.ProjectID == "" || in.Credential.UserID == "":
		return compute.Errorf(compute.Invalid, "a trust needs a user who gives it, in a project")
	case in.Name == "" || !utf8.ValidString(in.Name+in.Credential.ProjectID+in.Credential.UserID):
		return compute.Errorf(compute.Invalid, "a trust needs a name that is text")
	}
	return nil
}

// Check refuses a credential without a project, with Forbidden.
func (in DeleteInput) Check() error {
	if in.Credential.ProjectID == "" {
		return compute.Errorf(compute.Forbidden, "a trust is deleted with a credential of its project")
	}
	return nil
}

// Picks reports whether a trust that strongroom made is one that is to go. A name is
// looked for in the credential's project only: another project's trust of the same
// name stays. Forbidden: it is named by its id and belongs to another project.
func (in DeleteInput) Picks(t Item) (bool, error) {
	named, known := t.Name == in.Name, in.ID != "" && t.ID == in.ID
	if known && t.ProjectID != in.Credential.ProjectID {
		return false, compute.Errorf(compute.Forbidden, "trust %s belongs to another project", t.ID)
	}
	return (named || known) && t.ProjectID == in.Credential.ProjectID, nil
}
