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
