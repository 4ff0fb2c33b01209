package record

import (
	"context"
	"slices"

	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema"
)

// Rebuild decides a rebuild.
var Rebuild = durable.Activity[RebuildInput, durable.None]{
	Name: "record.Rebuild", Queue: durable.RecordQueue,
	Summary: func(in RebuildInput) string { return stepSummary("decide the rebuild", in.Close, in.Open) },
}

// RebuildInput says what a server was rebuilt to.
type RebuildInput struct {
	durable.OperationInput
	Image compute.Image  `json:"image"`
	Disks []compute.Disk `json:"disks"`
	TPM   *compute.TPM   `json:"tpm,omitempty"`

	TPMLost     bool `json:"tpm_lost,omitempty"`     // the host had lost the state of the vTPM, and another one is in its place,
	TPMRestored bool `json:"tpm_restored,omitempty"` // that of its backup

	Close *Close `json:"close,omitempty"`
	Open  *Open  `json:"open,omitempty"`
}

// Rebuild is the activity record.Rebuild: the decision of a rebuild. From here on
// the server has its new image, disks and vTPM, and what else the request changed
// (TPM-10, TPM-29, EE-07, EE-08). Running again after it took effect is a success and
// changes nothing.
func (a *Activities) Rebuild(ctx context.Context, in RebuildInput) error {
	d := decision{OperationInput: in.OperationInput, close: in.Close, open: in.Open}
	d.alreadyDecided = func(q *schema.Queries) (bool, error) { return hasDisks(ctx, q, in.Server, in.Disks) }
	d.do = func(q *schema.Queries) error {
		op, err := q.GetOperation(ctx, in.Operation)
		if err != nil {
			return err
		}
		asked, err := op.Rebuild()
		if err != nil {
			return err
		}
		was, err := q.GetServer(ctx, in.Server)
		if err != nil {
			return err
		}
		if err := rebuildServer(ctx, q, in, was, asked.Change); err != nil {
			return err
		}
		for _, d := range in.Disks {
			if err := replaceDisk(ctx, q, in.Server, d); err != nil {
				return err
			}
		}
		if in.TPMLost {
			if err := q.DecideKept(ctx, in.Server.UUID); err != nil {
				return err
			}
		}
		if err := noteEndorsement(ctx, q, in.OperationInput, false); err != nil {
			return err
		}
		// The new machine has run.
		if err := setUnbooted(ctx, q, in.Server, false); err != nil {
			return err
		}
		if err := setNewTPM(ctx, q, in.Server, false); err != nil {
			return err
		}
		if err := setTPMSecret(ctx, q, in.Server, in.TPM); err != nil {
			return err
		}
		if in.TPMLost && !in.TPMRestored {
			return q.ForgetTPMBackup(ctx, in.Server)
		}
		return forgetTPMBackup(ctx, q, in.Server)
	}
	return a.decide(ctx, d)
}

// hasDisks reports whether a server has disks, and all of these.
func hasDisks(ctx context.Context, q *schema.Queries, server compute.ServerID, disks []compute.Disk) (bool, error) {
	rows, err := q.GetServerDisks(ctx, server)
	missing := func(d compute.Disk) bool {
		return !slices.ContainsFunc(rows, func(row schema.ServerDisk) bool { return row.ID == d.ID })
	}
	return len(disks) > 0 && !slices.ContainsFunc(disks, missing), err
}

func rebuildServer(ctx context.Context, q *schema.Queries, in RebuildInput, was schema.Server, c compute.ServerChange) error {
	enc, err := compute.EncryptionOf(was.Flavor, in.Image)
	if err != nil {
		return err
	}
	traits, err := compute.TraitsOf(was.Flavor, in.Image, enc, in.TPM)
	if err != nil {
		return err
	}
	row := schema.RebuildServerParams{
		ID: in.Server, OperationID: in.Operation, ImageID: &in.Image.ID, Image: in.Image,
		RequiredTraits: traits.Required, ForbiddenTraits: traits.Forbidden, Name: c.Name, Hostname: c.Hostname, Metadata: was.Metadata,
		DiskConfig: c.DiskConfig, AccessIPv4: c.AccessIPv4, AccessIPv6: c.AccessIPv6,
		Describe: c.Description.Set, Description: c.Description.Text, SetKey: c.KeyName.Set, KeyName: c.KeyName.Text, KeyData: c.KeyData,
		SetUserData: c.UserData.Set, UserData: c.UserData.Text,
	}
	if c.Metadata != nil {
		row.Metadata = c.Metadata
	}
	row.TPM = in.TPM.WithoutSecret()
	_, err = q.RebuildServer(ctx, row)
	return err
}

func replaceDisk(ctx context.Context, q *schema.Queries, server compute.ServerID, d compute.Disk) error {
	options, err := optionsText(d.EncryptionOptions)
	if err != nil {
		return err
	}
	return q.ReplaceServerDisk(ctx, schema.ReplaceServerDiskParams{
		ServerID: server, Role: d.Role, Index: int32(d.Index), ID: d.ID, DeviceName: d.DeviceName, Bus: d.Bus, File: d.File, SizeMB: d.SizeMB, ImageID: d.Image,
		Encrypted: d.Encrypted, Secret: d.Secret, BackingSecret: d.BackingSecret, EncryptionFormat: d.Format, EncryptionOptions: options, Whole: d.Whole,
	})
}
