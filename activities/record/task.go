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
	return a.fencedTx(ctx, in.OperationInput, func(q *schema.Queries) error {
		_, err := q.SetServerTask(ctx, schema.SetServerTaskParams{ID: in.Server, CurrentOperation: in.Operation, TaskState: in.Task})
		return err
	})
}

// SecretsInput says which secrets a server's disks and vTPM have: ids, never values.
type SecretsInput struct {
	durable.OperationInput
	Disks   map[string]compute.SecretID `json:"disks"`             // by disk id
	Sources map[string]compute.SecretID `json:"sources,omitempty"` // of what lies under them, by disk id (EE-11)
	TPM     *compute.SecretID           `json:"tpm,omitempty"`
}

// SaveSecrets is the activity record.SaveSecrets. The ids are on record before
// the guest starts (TPM-10, EE-07).
func (a *Activities) SaveSecrets(ctx context.Context, in SecretsInput) error {
	return a.fencedTx(ctx, in.OperationInput, func(q *schema.Queries) error {
		for disk, secret := range in.Disks {
			id, err := parseDisk(disk)
			if err != nil {
				return err
			}
			if err := q.SetDiskSecret(ctx, schema.SetDiskSecretParams{ID: id, EncryptionSecret: &secret}); err != nil {
				return err
			}
		}
		for disk, secret := range in.Sources {
			id, err := parseDisk(disk)
			if err != nil {
				return err
			}
			if err := q.SetDiskBackingSecret(ctx, schema.SetDiskBackingSecretParams{ID: id, BackingEncryptionSecret: &secret}); err != nil {
				return err
			}
		}
		if in.TPM == nil {
			return nil
		}
		return q.SetSystemMetadata(ctx, schema.SetSystemMetadataParams{ServerID: in.Server, Key: compute.SystemTPMSecret, Value: in.TPM.String()})
	})
}

// ClearSecrets is the activity record.ClearSecrets: the undo of SaveSecrets. A
// server that has gone over to another operation is left as it is.
func (a *Activities) ClearSecrets(ctx context.Context, in durable.OperationInput) error {
	return a.tx(ctx, func(q *schema.Queries) error {
		held, err := hold(ctx, q, in)
		if err != nil || !held {
			return err
		}
		return clearSecrets(ctx, q, in.Server)
	})
}

func clearSecrets(ctx context.Context, q *schema.Queries, server compute.ServerID) error {
	if err := q.ClearServerSecrets(ctx, server); err != nil {
		return err
	}
	return q.DeleteSystemMetadata(ctx, schema.DeleteSystemMetadataParams{ServerID: server, Key: compute.SystemTPMSecret})
}

// optionsText is a disk's encryption options as its row has them.
func optionsText(options map[string]string) (string, error) {
	if len(options) == 0 {
		return "{}", nil
	}
	text, err := json.Marshal(options)
	return string(text), err
}

// OptionsInput says how a disk was really encrypted (EE-08).
type OptionsInput struct {
	durable.OperationInput
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
	return a.fencedTx(ctx, in.OperationInput, func(q *schema.Queries) error {
		return q.SetDiskOptions(ctx, schema.SetDiskOptionsParams{ID: in.Disk, EncryptionFormat: in.Format, EncryptionOptions: string(text)})
	})
}
