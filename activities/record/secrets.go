package record

import (
	"context"

	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema"
	"strongroom/schema/fence"
)

// The undos of what Advance saves.
var (
	// ClearSecrets is the undo of AdvanceInput.Secrets.
	ClearSecrets = durable.Activity[durable.OperationInput, durable.None]{
		Name: "record.ClearSecrets", Queue: durable.RecordQueue,
		Summary: func(durable.OperationInput) string { return "clear the server's ids of secrets" },
	}
	// ForgetTrust is for a trust that is gone.
	ForgetTrust = durable.Activity[compute.Credential, durable.None]{
		Name: "record.ForgetTrust", Queue: durable.RecordQueue,
		Summary: func(compute.Credential) string { return "forget the trust" },
	}
)

// saveSecrets puts ids on record before the guest starts (TPM-10, EE-07).
func saveSecrets(ctx context.Context, q *schema.Queries, server compute.ServerID, in Secrets) error {
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
	return q.SetSystemMetadata(ctx, schema.SetSystemMetadataParams{ServerID: server, Key: compute.SystemTPMSecret, Value: in.TPM.String()})
}

// ClearSecrets is the activity record.ClearSecrets. A server that another operation has
// taken over is left as it is.
func (a *Activities) ClearSecrets(ctx context.Context, in durable.OperationInput) error {
	return a.transaction(ctx, func(q *schema.Queries) error {
		owned, err := fence.LockIfOwned(ctx, q, in.Operation, in.Server)
		if err != nil || !owned {
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

// ForgetTrust is the activity record.ForgetTrust.
func (a *Activities) ForgetTrust(ctx context.Context, delegated compute.Credential) error {
	return a.transaction(ctx, func(q *schema.Queries) error { return q.ForgetTrust(ctx, delegated.ID) })
}
