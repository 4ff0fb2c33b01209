package api

import (
	"encoding/json"
	"net/http"

	"strongroom/api/fault"
	"strongroom/api/policy"
	"strongroom/compute"
)

const (
	ruleDisks      = "strongroom:servers:disks"
	ruleOperations = "strongroom:servers:operations"

	ruleCancelOperation = "strongroom:servers:cancel_operation"
)

// serverInside is what clients that name strongroom 1.0 can see of a server
// beyond the compute API: how each disk is encrypted, the certificates of its vTPM, and its operations step
// by step. To others it is not there.
func (a *API) serverInside() Resource {
	const one = "/servers/:id/operations/:operation"
	return Resource{
		Rules: policy.Rules{
			ruleDisks: policy.ProjectReaderOrAdmin, ruleOperations: policy.ProjectReaderOrAdmin, ruleCancelOperation: policy.ProjectMemberOrAdmin,
			ruleTPMCertificates: policy.ProjectReaderOrAdmin,
		},
		Routes: []Route{
			{Method: http.MethodGet, Path: "/servers/:id/disks", Handle: extended(a.listDisks), Own: true},
			{Method: http.MethodGet, Path: "/servers/:id/tpm-certificates", Handle: extended(a.listTPMCertificates), Own: true},
			{Method: http.MethodGet, Path: "/servers/:id/operations", Handle: extended(a.listOperations), Own: true},
			{Method: http.MethodGet, Path: one, Handle: extended(a.showOperation), Own: true},
			{Method: http.MethodDelete, Path: one, Status: http.StatusAccepted, Handle: extended(a.cancelOperation), Own: true},
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
