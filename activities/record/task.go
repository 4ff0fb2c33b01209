package record

import (
	"context"
	"encoding/json"

	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema"
)

// TaskInput sets what is being done to the server.
type TaskInput struct {
	durable.OperationInput
	Task compute.TaskState `json:"task"`
}

// Task is the activity record.Task.
func (a *Activities) Task(ctx context.Context, in TaskInput) error {
	return a.tx(ctx, func(q *schema.Queries) error {
		return fenced(q.SetServerTask(ctx, schema.SetServerTaskParams{ID: in.Server, CurrentOperation: in.Operation, TaskState: in.Task}))
	})
}

// SecretsInput says which secrets a server's disks and vTPM have: ids, never values.
type SecretsInput struct {
	durable.OperationInput
	Disks map[string]compute.SecretID `json:"disks"` // by disk id
	TPM   *compute.SecretID           `json:"tpm,omitempty"`
	Clear bool                        `json:"clear,omitempty"` // forget all of them first
}

// SaveSecrets is the activity record.SaveSecrets. The ids are on record before
// the guest starts (TPM-10, EE-07).
func (a *Activities) SaveSecrets(ctx context.Context, in SecretsInput) error {
	return a.tx(ctx, func(q *schema.Queries) error {
		if in.Clear {
			if err := q.ClearServerSecrets(ctx, in.Server); err != nil {
				return err
			}
			if err := q.DeleteSystemMetadata(ctx, schema.DeleteSystemMetadataParams{ServerID: in.Server, Key: compute.SystemTPMSecret}); err != nil {
				return err
			}
		}
		for disk, secret := range in.Disks {
			id, err := parseDisk(disk)
			if err != nil {
				return err
			}
			if err := q.SetDiskSecret(ctx, schema.SetDiskSecretParams{ID: id, EncryptionSecret: &secret}); err != nil {
				return err
			}
		}
		if in.TPM == nil {
			return nil
		}
		return q.SetSystemMetadata(ctx, schema.SetSystemMetadataParams{ServerID: in.Server, Key: compute.SystemTPMSecret, Value: in.TPM.String()})
	})
}

// OptionsInput says how a disk was really encrypted (EE-08).
type OptionsInput struct {
	Disk    compute.DiskID     `json:"disk"`
	Format  compute.DiskFormat `json:"format"`
	Options map[string]string  `json:"options"`
}

// SaveOptions is the activity record.SaveOptions.
func (a *Activities) SaveOptions(ctx context.Context, in OptionsInput) error {
	text, err := json.Marshal(in.Options)
	if err != nil {
		return err
	}
	return a.tx(ctx, func(q *schema.Queries) error {
		return q.SetDiskOptions(ctx, schema.SetDiskOptionsParams{ID: in.Disk, EncryptionFormat: in.Format, EncryptionOptions: string(text)})
	})
}
