package record

import (
	"context"

	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema"
)

// Rotate decides a rotation of keys.
var Rotate = durable.Activity[RotateInput, durable.None]{
	Name: "record.Rotate", Queue: durable.RecordQueue,
	Summary: func(in RotateInput) string { return stepSummary("decide the rotation of keys", in.Close, in.Open) },
}

// RotateInput says which secrets open a server's disks from now on.
type RotateInput struct {
	durable.OperationInput
	Disks map[string]compute.Rotated `json:"disks"` // by disk id
	Close *Close                     `json:"close,omitempty"`
	Open  *Open                      `json:"open,omitempty"`
}

// Rotate is the activity record.Rotate: the point at which a rotation of keys is
// decided. All disks change in one transaction. Running again after it took effect
// is a success.
func (a *Activities) Rotate(ctx context.Context, in RotateInput) error {
	d := decision{OperationInput: in.OperationInput, close: in.Close, open: in.Open}
	d.alreadyDecided = func(q *schema.Queries) (bool, error) {
		left, err := unrotated(ctx, q, in)
		return len(left) == 0, err
	}
	d.do = func(q *schema.Queries) error {
		left, err := unrotated(ctx, q, in)
		if err != nil {
			return err
		}
		for _, row := range left {
			if err := rotate(ctx, q, row, in.Disks[row.ID.String()]); err != nil {
				return err
			}
		}
		return nil
	}
	return a.decide(ctx, d)
}

// unrotated gives those of the disks that other secrets open.
func unrotated(ctx context.Context, q *schema.Queries, in RotateInput) (left []schema.ServerDisk, err error) {
	rows, err := q.GetServerDisks(ctx, in.Server)
	for _, row := range rows {
		if to, ok := in.Disks[row.ID.String()]; ok && (row.EncryptionSecret == nil || *row.EncryptionSecret != to.Secret) {
			left = append(left, row)
		}
	}
	return left, err
}

func rotate(ctx context.Context, q *schema.Queries, row schema.ServerDisk, to compute.Rotated) error {
	options, err := optionsText(to.Options)
	if err != nil {
		return err
	}
	if err := q.SetDiskSecret(ctx, schema.SetDiskSecretParams{ID: row.ID, EncryptionSecret: &to.Secret}); err != nil {
		return err
	}
	return q.SetDiskOptions(ctx, schema.SetDiskOptionsParams{ID: row.ID, EncryptionFormat: row.EncryptionFormat, EncryptionOptions: options, Whole: row.Whole})
}
