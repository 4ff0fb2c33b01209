package api

import (
	"encoding/json"
	"net/http"

	"strongroom/api/fault"
	"strongroom/api/policy"
	"strongroom/compute"
	"strongroom/schema"
)

const (
	ruleDisks      = "strongroom:servers:disks"
	ruleOperations = "strongroom:servers:operations"
)

// serverInside is what clients that name strongroom 1.0 can see of a server
// beyond the compute API: how each disk is encrypted, and its operations step
// by step. To others it is not there.
func (a *API) serverInside() Resource {
	return Resource{
		Rules: policy.Rules{ruleDisks: policy.ProjectReaderOrAdmin, ruleOperations: policy.ProjectReaderOrAdmin},
		Routes: []Route{
			{Method: http.MethodGet, Path: "/servers/:id/disks", Handle: extended(a.listDisks)},
			{Method: http.MethodGet, Path: "/servers/:id/operations", Handle: extended(a.listOperations)},
		},
	}
}

// extended keeps a handler to clients that speak the extensions.
func extended(handle func(*Request) (any, error)) func(*Request) (any, error) {
	return func(r *Request) (any, error) {
		if !r.Extended {
			return nil, fault.NotFound("The resource could not be found.")
		}
		return handle(r)
	}
}

type diskView struct {
	ID                compute.DiskID    `json:"id"`
	Role              compute.DiskRole  `json:"role"`
	DeviceName        string            `json:"device_name"`
	Bus               string            `json:"bus"`
	SizeMB            int64             `json:"size_mb"`
	BootIndex         int32             `json:"boot_index"`
	GuestFormat       any               `json:"guest_format"`
	ImageID           *compute.ImageID  `json:"image_id"`
	Tag               *string           `json:"tag"`
	Encrypted         bool              `json:"encrypted"`
	EncryptionFormat  any               `json:"encryption_format"`
	EncryptionSecret  *compute.SecretID `json:"encryption_secret_uuid"`
	BackingSecret     *compute.SecretID `json:"backing_encryption_secret_uuid"`
	EncryptionOptions json.RawMessage   `json:"encryption_options"`
}

// listDisks shows the local disks with the fields of the encryption document
// (EE-07, EE-08). Secrets are ids, never values.
func (a *API) listDisks(r *Request) (any, error) {
	row, err := a.findServer(r, ruleDisks)
	if err != nil {
		return nil, err
	}
	disks, err := a.db.GetServerDisks(r.Context(), row.Server.ID)
	if err != nil {
		return nil, err
	}
	server, err := row.Server.WithDisks(disks)
	if err != nil {
		return nil, err
	}
	names := map[compute.DiskID]string{} // of a server that is rescued they are others than they were
	for _, d := range server.Attached() {
		names[d.ID] = d.DeviceName
	}
	out := []diskView{}
	for _, d := range disks {
		out = append(out, diskView{
			ID: d.ID, Role: d.Role, DeviceName: names[d.ID], Bus: d.Bus, SizeMB: d.SizeMB, BootIndex: d.BootIndex,
			GuestFormat: orNull(d.GuestFormat), ImageID: d.ImageID, Tag: d.Tag, Encrypted: d.Encrypted,
			EncryptionFormat: orNull(string(d.EncryptionFormat)), EncryptionSecret: d.EncryptionSecret,
			BackingSecret: d.BackingEncryptionSecret, EncryptionOptions: json.RawMessage(d.EncryptionOptions),
		})
	}
	return map[string]any{"disks": out}, nil
}

// listOperations shows the newest operations with their steps.
func (a *API) listOperations(r *Request) (any, error) {
	row, err := a.seekServer(r, ruleOperations)
	if err != nil {
		return nil, err
	}
	operations, err := a.db.ServerOperations(r.Context(), schema.ServerOperationsParams{ServerID: row.Server.ID, Most: MaxLimit})
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(operations))
	for i, op := range operations {
		ids[i] = string(op.ID)
	}
	events, err := a.db.OperationEvents(r.Context(), ids)
	if err != nil {
		return nil, err
	}
	steps := map[compute.OperationID][]map[string]any{}
	see := eventView{version: r.Version, project: row.Server.ProjectID, traces: r.IsAdmin(), details: r.IsAdmin()}
	for i := len(events) - 1; i >= 0; i-- { // in the order in which they happened
		e := events[i]
		steps[e.OperationID] = append(steps[e.OperationID], see.event(e))
	}
	out := []map[string]any{}
	for _, op := range operations {
		out = append(out, viewOperation(op, steps[op.ID]))
	}
	return map[string]any{"operations": out}, nil
}

func viewOperation(op schema.Operation, steps []map[string]any) map[string]any {
	if steps == nil {
		steps = []map[string]any{}
	}
	return map[string]any{
		"id": op.ID, "kind": op.Kind, "state": op.State, "message": op.Message, "user_id": op.UserID, "project_id": op.ProjectID,
		"accepted_at": microseconds(&op.AcceptedAt), "started_at": microseconds(op.StartedAt),
		"finished_at": microseconds(op.FinishedAt), "events": steps,
	}
}
