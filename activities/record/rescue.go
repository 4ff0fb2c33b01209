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
		EncryptionFormat: d.Format, EncryptionOptions: options, File: d.File, Whole: d.Whole,
	})
}

// Unrescue decides an unrescue.
var Unrescue = durable.Activity[UnrescueInput, durable.None]{
	Name: "record.Unrescue", Queue: durable.RecordQueue,
	Summary: func(in UnrescueInput) string { return stepSummary("decide the unrescue", in.Close, in.Open) },
}

// UnrescueInput names a server.
type UnrescueInput struct {
	durable.OperationInput
	Close *Close `json:"close,omitempty"`
	Open  *Open  `json:"open,omitempty"`
}

// Unrescue is the activity record.Unrescue: from here on the server has no rescue
// disk. The file is still there. Running again after it took effect is a success.
func (a *Activities) Unrescue(ctx context.Context, in UnrescueInput) error {
	d := decision{OperationInput: in.OperationInput, close: in.Close, open: in.Open}
	d.alreadyDecided = func(q *schema.Queries) (bool, error) {
		rows, err := q.GetServerDisks(ctx, in.Server)
		rescued := slices.ContainsFunc(rows, func(d schema.ServerDisk) bool { return d.Role == compute.RescueDisk })
		return !rescued, err
	}
	d.do = func(q *schema.Queries) error {
		return q.DetachDisks(ctx, schema.DetachDisksParams{ServerID: in.Server, Role: compute.RescueDisk})
	}
	return a.decide(ctx, d)
}
