package schema

import (
	"context"
	"encoding/json"

	"strongroom/compute"
)

// WithDisks gives a server's rows as the field knows it, but for what the system
// metadata say. Corrupt: a disk's encryption options are no JSON object.
func (s Server) WithDisks(disks []ServerDisk) (compute.Server, error) {
	out := compute.Server{
		ID: s.ID, ProjectID: s.ProjectID, UserID: s.UserID, Name: s.Name, Hostname: s.Hostname,
		VMState: s.VMState, TaskState: s.TaskState, PowerState: s.PowerState, Host: s.HostID,
		Flavor: s.Flavor, Image: s.Image, Networks: s.Networks, TPM: s.TPM, TPMBackup: s.TPMBackup,
		Traits: s.RequiredTraits, Forbidden: s.ForbiddenTraits, ConfigDrive: s.ConfigDrive, Former: s.Former,
	}
	for _, row := range disks {
		d, err := row.Disk()
		if err != nil {
			return compute.Server{}, err
		}
		out.Disks = append(out.Disks, d)
	}
	return out, nil
}

// Disk gives the row as the field knows it. Corrupt: see WithDisks.
func (row ServerDisk) Disk() (compute.Disk, error) {
	d := compute.Disk{
		ID: row.ID, Role: row.Role, Index: int(row.Index), DeviceName: row.DeviceName, Bus: row.Bus, SizeMB: row.SizeMB,
		BootIndex: int(row.BootIndex), GuestFormat: row.GuestFormat, Image: row.ImageID, Source: row.Source, File: row.File, Whole: row.Whole, Shelved: row.Shelved, Encrypted: row.Encrypted,
		Secret: row.EncryptionSecret, BackingSecret: row.BackingEncryptionSecret, Format: row.EncryptionFormat,
	}
	if err := json.Unmarshal([]byte(row.EncryptionOptions), &d.EncryptionOptions); err != nil {
		return d, compute.Errorf(compute.Corrupt, "disk %s: encryption options are no JSON object", row.ID)
	}
	return d, nil
}

// DeleteServer has a delete take a server over, whose shares are detaching from then on. 0: it did not, see TakeServerToDelete.
func (q *Queries) DeleteServer(ctx context.Context, in TakeServerToDeleteParams) (rows int64, err error) {
	if rows, err = q.TakeServerToDelete(ctx, in); err == nil && rows > 0 {
		err = q.SharesAreUnwanted(ctx, in.ID)
	}
	return rows, err
}

// Mapping gives the row as the field knows it, without where the share is exported.
func (row ServerShare) Mapping() compute.ShareMapping {
	return compute.ShareMapping{ID: row.ID, Share: row.ShareID, Status: row.Status, Tag: row.Tag, Protocol: row.ShareProto}
}

// SealedFor is what a share's export location is bound to: its attachment, its server and itself.
func (row ServerShare) SealedFor() compute.Credential {
	return compute.Credential{ID: row.ID, ProjectID: row.ServerID.String(), UserID: row.ShareID.String()}
}

// Rebuild reads the arguments of a rebuild. Invalid: the operation has none.
func (op Operation) Rebuild() (asked compute.RebuildRequest, err error) {
	if err := json.Unmarshal(op.Arguments, &asked); err != nil {
		return asked, compute.Errorf(compute.Invalid, "operation %s has no arguments of a rebuild", op.ID)
	}
	return asked, nil
}
