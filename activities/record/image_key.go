package record

import (
	"context"

	"strongroom/activities/ledger"
	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema"
)

// UseSecret puts on record that an image is about to be encrypted with a secret that
// somebody named.
var UseSecret = durable.Activity[UseSecretInput, durable.None]{
	Name: "record.UseSecret", Queue: durable.RecordQueue,
	Summary: func(in UseSecretInput) string {
		return "note that image " + in.Image.String() + " uses secret " + in.Secret.String()
	},
}

// UseSecretInput names the image and the secret.
type UseSecretInput struct {
	durable.OperationInput
	Image   compute.ImageID  `json:"image"`
	Project string           `json:"project"` // the image's
	Secret  compute.SecretID `json:"secret"`
	Name    string           `json:"name,omitempty"` // of the secret in the key manager
}

// UseSecret is the activity record.UseSecret. Conflict: the secret is deleted with a server's
// disk or vTPM, of whichever project, or with an image (EE-46).
func (a *Activities) UseSecret(ctx context.Context, in UseSecretInput) error {
	return a.transaction(ctx, func(q *schema.Queries) error {
		return ledger.UseSecret(ctx, q, schema.RecordImageKeyParams{
			ImageID: in.Image, OperationID: in.Operation, ProjectID: in.Project, Secret: in.Secret,
		}, in.Name)
	})
}
