package record

import (
	"context"
	"slices"

	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema"
)

// attach puts a disk that a server was not created with on record. Ids of secrets
// are on it, never values.
func attach(ctx context.Context, q *schema.Queries, server compute.ServerID, d compute.Disk) error {
	options, err := optionsText(d.EncryptionOptions)
	if err != nil {
		return err
	}
	return q.AttachDisk(ctx, schema.AttachDiskParams{
		ID: d.ID, ServerID: server, Role: d.Role, DeviceName: d.DeviceName, Bus: d.Bus, SizeMB: d.SizeMB, BootIndex: int32(d.BootIndex),
		ImageID: d.Image, Source: d.Source, Encrypted: d.Encrypted, EncryptionSecret: d.Secret, BackingEncryptionSecret: d.BackingSecret,
		EncryptionFormat: d.Format, EncryptionOptions: options,
	})
}

// Unrescue is the activity record.Unrescue: from here on the server has no rescue
// disk. The file is still there. Running again after it took effect is a success.
func (a *Activities) Unrescue(ctx context.Context, in durable.OperationInput) error {
	stands := func(q *schema.Queries) (bool, error) {
		rows, err := q.GetServerDisks(ctx, in.Server)
		rescued := slices.ContainsFunc(rows, func(d schema.ServerDisk) bool { return d.Role == compute.RescueDisk })
		return !rescued, err
	}
	return a.decisionTx(ctx, in, stands, func(q *schema.Queries) error {
		return q.DetachDisks(ctx, schema.DetachDisksParams{ServerID: in.Server, Role: compute.RescueDisk})
	})
}
