package record

import (
	"context"

	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema"
)

// The points of no return of a shelve, of an offload and of an unshelve.
var (
	Shelve = durable.Activity[ShelveInput, durable.None]{
		Name: "record.Shelve", Queue: durable.RecordQueue,
		Summary: func(in ShelveInput) string {
			return stepSummary("decide that the server is "+string(in.state()), in.Close, nil)
		},
	}
	Unshelve = durable.Activity[UnshelveInput, durable.None]{
		Name: "record.Unshelve", Queue: durable.RecordQueue,
		Summary: func(in UnshelveInput) string { return stepSummary("decide the unshelve", in.Close, nil) },
	}
)

// ShelveInput says where the data of a shelved server are. A server that is shelved
// already, and leaves its host, has them where it had them.
type ShelveInput struct {
	durable.OperationInput
	Disks map[string]compute.ShelvedDisk `json:"disks,omitempty"` // by disk id
	TPM   *compute.StoredTPM             `json:"tpm,omitempty"`   // read back and compared (TPM-22)
	NVRAM *compute.StoredNVRAM           `json:"nvram,omitempty"` // as much
	// OffloadAfter is that of compute.ShelveArguments.
	OffloadAfter int    `json:"offload_after"`
	Close        *Close `json:"close,omitempty"`
}

func (in ShelveInput) state() compute.VMState {
	if in.OffloadAfter == 0 {
		return compute.VMShelvedOffloaded
	}
	return compute.VMShelved
}

// noted is the system metadata of a server that is shelved so.
func (in ShelveInput) noted() map[string]string {
	out := map[string]string{}
	if in.TPM != nil {
		out[compute.SystemTPMObject], out[compute.SystemTPMObjectSHA256] = in.TPM.Object, in.TPM.SHA256
	}
	if in.NVRAM != nil {
		out[compute.SystemNVRAMObject], out[compute.SystemNVRAMObjectSHA256] = in.NVRAM.Object, in.NVRAM.SHA256
	}
	return out
}

// Shelve is the activity record.Shelve: from here on the server is shelved, and what it has
// on its host is not needed any more if it does not stay there. Running again after it took
// effect is a success. Conflict: the state of its vTPM is still to be put back.
func (a *Activities) Shelve(ctx context.Context, in ShelveInput) error {
	d := decision{OperationInput: in.OperationInput, close: in.Close}
	d.alreadyDecided = func(q *schema.Queries) (bool, error) { return isShelvedAs(ctx, q, in) }
	d.do = func(q *schema.Queries) error {
		if err := shelveDisks(ctx, q, in); err != nil {
			return err
		}
		if in.TPM != nil {
			if err := schema.HasTPMBack(ctx, q, in.Server); err != nil { // what was stored is not what it is to be
				return err
			}
			if err := q.ForgetTPMBackup(ctx, in.Server); err != nil { // that is a later state
				return err
			}
		}
		for key, value := range in.noted() {
			if err := q.SetSystemMetadata(ctx, schema.SetSystemMetadataParams{ServerID: in.Server, Key: key, Value: value}); err != nil {
				return err
			}
		}
		row := schema.ShelveServerParams{ID: in.Server, OperationID: in.Operation, VMState: in.state(), PowerState: compute.PowerShutdown, TaskState: compute.TaskShelving}
		switch {
		case in.OffloadAfter == 0:
			row.TaskState = compute.TaskShelvingOffloading
		case in.OffloadAfter > 0:
			row.OffloadSeconds = pointer(float64(in.OffloadAfter))
		}
		_, err := q.ShelveServer(ctx, row)
		return err
	}
	return a.decide(ctx, d)
}

func shelveDisks(ctx context.Context, q *schema.Queries, in ShelveInput) error {
	for text, shelved := range in.Disks {
		id, err := parseDisk(text)
		if err != nil {
			return err
		}
		if err := q.SetDiskShelved(ctx, schema.SetDiskShelvedParams{ID: id, ServerID: in.Server, Shelved: &shelved}); err != nil {
			return err
		}
	}
	return nil
}

// isShelvedAs reports whether the server is shelved as the input says.
func isShelvedAs(ctx context.Context, q *schema.Queries, in ShelveInput) (bool, error) {
	s, err := schema.LoadServer(ctx, q, in.Server)
	if err != nil || len(in.Disks) == 0 {
		return err == nil && s.VMState == in.state(), err
	}
	for _, d := range s.Disks {
		if want, is := in.Disks[d.ID.String()]; is && (d.Shelved == nil || *d.Shelved != want) {
			return false, nil
		}
	}
	return true, nil
}

// UnshelveInput says what a server is made of that runs again.
type UnshelveInput struct {
	durable.OperationInput
	// Disks are those that were made of the shelved data; none: it has those that it had.
	Disks []compute.Disk `json:"disks,omitempty"`
	Unpin bool           `json:"unpin,omitempty"` // it is pinned to no zone any more
	Zone  string         `json:"zone,omitempty"`  // "": as before; the zone that it is pinned to from here on
	Close *Close         `json:"close,omitempty"`
}

// Unshelve is the activity record.Unshelve: from here on the server has its data on its
// host alone. What kept them is still there. Running again after it took effect is a success.
func (a *Activities) Unshelve(ctx context.Context, in UnshelveInput) error {
	d := decision{OperationInput: in.OperationInput, close: in.Close}
	d.alreadyDecided = func(q *schema.Queries) (bool, error) {
		rows, err := q.GetServerDisks(ctx, in.Server)
		for _, row := range rows {
			if row.Shelved != nil {
				return false, err
			}
		}
		return err == nil, err
	}
	d.do = func(q *schema.Queries) error {
		for _, d := range in.Disks {
			if err := q.RestoreDisk(ctx, schema.RestoreDiskParams{ID: d.ID, ServerID: in.Server, File: d.File}); err != nil {
				return err
			}
		}
		rows, err := q.GetServerDisks(ctx, in.Server)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if err := q.SetDiskShelved(ctx, schema.SetDiskShelvedParams{ID: row.ID, ServerID: in.Server}); err != nil {
				return err
			}
		}
		return a.forgetShelved(ctx, q, in)
	}
	return a.decide(ctx, d)
}

func (a *Activities) forgetShelved(ctx context.Context, q *schema.Queries, in UnshelveInput) error {
	gone := []string{compute.SystemTPMObject, compute.SystemTPMObjectSHA256, compute.SystemNVRAMObject, compute.SystemNVRAMObjectSHA256}
	if in.Unpin {
		gone = append(gone, compute.SystemPinnedZone)
	}
	for _, key := range gone {
		if err := q.DeleteSystemMetadata(ctx, schema.DeleteSystemMetadataParams{ServerID: in.Server, Key: key}); err != nil {
			return err
		}
	}
	if in.Zone != "" {
		if err := q.SetSystemMetadata(ctx, schema.SetSystemMetadataParams{ServerID: in.Server, Key: compute.SystemPinnedZone, Value: in.Zone}); err != nil {
			return err
		}
	}
	return q.ForgetOffload(ctx, in.Server)
}

// leaveHost gives back the claims of a server that has nothing on any host.
func leaveHost(ctx context.Context, q *schema.Queries, in durable.OperationInput) error {
	if err := q.DeleteClaims(ctx, in.Server); err != nil {
		return err
	}
	return q.UnplaceServer(ctx, schema.UnplaceServerParams{ID: in.Server, CurrentOperation: in.Operation})
}
