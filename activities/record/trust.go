package record

import (
	"context"

	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema"
)

// TrustInput says which trust a server's owner gave.
type TrustInput struct {
	durable.OperationInput
	Delegated compute.Credential `json:"delegated"`
	Trust     string             `json:"trust"` // its id, which is of no use to anybody but strongroom's own user
}

// SaveTrust is the activity record.SaveTrust: from here on the delegated
// credential stands for the trust.
func (a *Activities) SaveTrust(ctx context.Context, in TrustInput) error {
	return a.fencedTx(ctx, in.OperationInput, func(q *schema.Queries) error {
		return q.SaveTrust(ctx, schema.SaveTrustParams{
			ID: in.Delegated.ID, ProjectID: in.Delegated.ProjectID, UserID: in.Delegated.UserID, TrustID: &in.Trust,
		})
	})
}

// ForgetTrust is the activity record.ForgetTrust: the trust is gone.
func (a *Activities) ForgetTrust(ctx context.Context, delegated compute.Credential) error {
	return a.tx(ctx, func(q *schema.Queries) error { return q.ForgetTrust(ctx, delegated.ID) })
}
