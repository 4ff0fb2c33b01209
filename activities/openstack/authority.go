package openstack

import (
	"context"

	"strongroom/activities/secret"
	"strongroom/compute"
)

// Authority is what a credential stands for: one of a token and a trust.
type Authority struct {
	ProjectID string             // that the token or trust is for
	Token     *secret.Passphrase // a user's token; whoever asked wipes it
	TrustID   string             // a user's trust in strongroom's own user
}

// Authorities finds what credentials stand for; strongroom's own (those that
// compute.Credential.IsDeployment and IsMember know) need none.
type Authorities interface {
	// Authority gives what a credential stands for. Forbidden: nothing, or nothing
	// any more; Unavailable: it cannot be told now.
	Authority(ctx context.Context, cred compute.Credential) (Authority, error)
}
