package record

import (
	"context"
	"encoding/json"

	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema"
)

// RotateInput says which secrets open a server's disks from now on.
type RotateInput struct {
	durable.OperationInput
	Disks map[string]compute.Rotated `json:"disks"` // by disk id
}

// Rotate is the activity record.Rotate: the point at which a rotation of keys is
// decided. All disks change in one transaction. Running again after it took effect
// is a success, also when the server has gone over to another operation by then:
// an undo would take away what is on record.
func (a *Activities) Rotate(ctx context.Context, in RotateInput) error {
	return a.tx(ctx, func(q *schema.Queries) error {
		// The lock first: an earlier attempt may be about to commit.
		held, err := hold(ctx, q, in.OperationInput)
		if err != nil {
			return err
		}
		rows, err := q.GetServerDisks(ctx, in.Server)
		if err != nil {
			return err
		}
		var left []schema.ServerDisk
		for _, row := range rows {
			if to, ok := in.Disks[row.ID.String()]; ok && (row.EncryptionSecret == nil || *row.EncryptionSecret != to.Secret) {
				left = append(left, row)
			}
		}
		if len(left) > 0 && !held {
			return Superseded()
		}
		for _, row := range left {
			if err := rotate(ctx, q, row, in.Disks[row.ID.String()]); err != nil {
				return err
			}
		}
		return nil
	})
}

func rotate(ctx context.Context, q *schema.Queries, row schema.ServerDisk, to compute.Rotated) error {
	options, err := json.Marshal(to.Options)
	if err != nil {
		return err
	}
	if err := q.SetDiskSecret(ctx, schema.SetDiskSecretParams{ID: row.ID, EncryptionSecret: &to.Secret}); err != nil {
		return err
	}
	return q.SetDiskOptions(ctx, schema.SetDiskOptionsParams{ID: row.ID, EncryptionFormat: row.EncryptionFormat, EncryptionOptions: string(options)})
}
