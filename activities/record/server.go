package record

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"

	"strongroom/compute"
	"strongroom/schema"
)

// LoadServer reads a server with its disks, vTPM and system metadata.
func LoadServer(ctx context.Context, q *schema.Queries, id compute.ServerID) (compute.Server, error) {
	row, err := q.GetServer(ctx, id)
	if err != nil {
		return compute.Server{}, err
	}
	disks, err := q.GetServerDisks(ctx, id)
	if err != nil {
		return compute.Server{}, err
	}
	system, err := q.GetServerSystemMetadata(ctx, id)
	if err != nil {
		return compute.Server{}, err
	}
	s := compute.Server{
		ID: row.ID, ProjectID: row.ProjectID, UserID: row.UserID, Name: row.Name, Hostname: row.Hostname,
		VMState: row.VMState, TaskState: row.TaskState, PowerState: row.PowerState, Host: row.HostID,
		Flavor: row.Flavor, Image: row.Image, Networks: row.Networks, TPM: row.TPM,
		Traits: row.RequiredTraits, Forbidden: row.ForbiddenTraits, ConfigDrive: row.ConfigDrive,
	}
	for _, d := range disks {
		disk, err := Disk(d)
		if err != nil {
			return compute.Server{}, err
		}
		s.Disks = append(s.Disks, disk)
	}
	for _, m := range system {
		if s.System == nil {
			s.System = map[string]string{}
		}
		s.System[m.Key] = m.Value
	}
	if s.TPM != nil {
		if id, err := uuid.Parse(s.System[compute.SystemTPMSecret]); err == nil {
			s.TPM.Secret = &compute.SecretID{UUID: id}
		}
	}
	return s, nil
}

// Disk gives a server_disks row as the field knows it.
func Disk(row schema.ServerDisk) (compute.Disk, error) {
	d := compute.Disk{
		ID: row.ID, Role: row.Role, Index: int(row.Index), DeviceName: row.DeviceName, Bus: row.Bus, SizeMB: row.SizeMB,
		BootIndex: int(row.BootIndex), GuestFormat: row.GuestFormat, Image: row.ImageID, Source: row.Source, File: row.File, Encrypted: row.Encrypted,
		Secret: row.EncryptionSecret, BackingSecret: row.BackingEncryptionSecret, Format: row.EncryptionFormat,
	}
	if err := json.Unmarshal([]byte(row.EncryptionOptions), &d.EncryptionOptions); err != nil {
		return d, compute.Errorf(compute.Corrupt, "disk %s: encryption options are no JSON object", row.ID)
	}
	return d, nil
}
