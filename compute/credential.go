package compute

import "github.com/google/uuid"

// Credential is a reference to the authority an operation acts with. It holds
// no token: the sealed token, where there is one, is found by ID by the adapter
// that needs it. ProjectID and UserID say on whose behalf.
type Credential struct {
	ID        uuid.UUID `json:"id"`
	ProjectID string    `json:"project_id"`
	UserID    string    `json:"user_id"`
}

// The credentials that are no user's: their ids stand for strongroom's own login.
var (
	// ownID is strongroom's own user in its own project.
	ownID = uuid.MustParse("6f1d6e52-0d2c-5b57-9a43-6c1c6d7f0a01")
	// memberID is strongroom's own user in somebody's project, where the operator
	// gave it a role there (an inherited one gives it in all of them).
	memberID = uuid.MustParse("6f1d6e52-0d2c-5b57-9a43-6c1c6d7f0a02")
)

// keptID is no authority at all: see KeptCredential.
var keptID = uuid.MustParse("6f1d6e52-0d2c-5b57-9a43-6c1c6d7f0a03")

// DeploymentProject stands for strongroom's own project, whatever its id.
const DeploymentProject = "deployment"

// DeploymentCredential is strongroom's own user in its own project: the owner of
// keys of the mode "deployment".
func DeploymentCredential() Credential {
	return Credential{ID: ownID, ProjectID: DeploymentProject}
}

// MemberCredential is strongroom's own user in a project of users. Where the
// operator gave it no role there, every use is refused with Forbidden.
func MemberCredential(projectID string) Credential {
	return Credential{ID: memberID, ProjectID: projectID}
}

// KeptCredential stands in an order to a host for the keys of a running server that comes to it:
// they are read of the host that it comes from, which keeps them, and the key manager is not asked.
func KeptCredential() Credential { return Credential{ID: keptID} }

// IsKept reports whether the credential is KeptCredential.
func (c Credential) IsKept() bool { return c.ID == keptID }

// DelegatedCredential is what the owner of a server of the mode "host" lets
// strongroom do in his name for as long as the server lives: a trust.
func DelegatedCredential(server ServerID, projectID, userID string) Credential {
	return Credential{ID: uuid.NewSHA1(server.UUID, []byte("delegated")), ProjectID: projectID, UserID: userID}
}

// IsDeployment reports whether the credential is DeploymentCredential.
func (c Credential) IsDeployment() bool { return c.ID == ownID }

// IsMember reports whether the credential is a MemberCredential.
func (c Credential) IsMember() bool { return c.ID == memberID }

// WithAny calls do with one credential after the other until one is not refused, with
// Forbidden.
func WithAny(credentials []Credential, do func(Credential) error) error {
	err := error(Errorf(Forbidden, "there is no credential"))
	for _, c := range credentials {
		if err = do(c); !Is(err, Forbidden) {
			break
		}
	}
	return err
}

// Access is a project with the credentials to look into it with, in turn.
type Access struct {
	Project     string       `json:"project"`
	Credentials []Credential `json:"credentials"`
}
