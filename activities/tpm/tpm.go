// Package tpm looks after the swtpm state folders of a compute host.
package tpm

import (
	"time"

	"strongroom/compute"
	"strongroom/durable"
)

// The activities; they run on the host's queue.
var (
	Save = durable.HostActivity[SaveInput, SaveResult]{Name: "tpm.Save",
		Summary: func(in SaveInput) string { return "store TPM state of server " + in.Server.String() }}
	Restore = durable.HostActivity[RestoreInput, durable.None]{Name: "tpm.Restore",
		Summary: func(in RestoreInput) string { return "lay down TPM state of server " + in.Server.String() }}
	Receive = durable.HostActivity[ReceiveInput, durable.None]{Name: "tpm.Receive",
		Summary: func(in ReceiveInput) string {
			return "receive TPM state of server " + in.Server.String() + " from " + in.From.Name
		}}
	Remove = durable.HostActivity[compute.Removal, durable.None]{Name: "tpm.Remove", Summary: compute.Removal.String}
	Seen   = durable.HostActivity[compute.SeenInput, compute.SeenResult]{Name: "tpm.Seen",
		Summary: func(compute.SeenInput) string { return "list TPM states" }}
)

// SaveInput asks that the state of a server that is off becomes an object.
type SaveInput struct {
	Credential compute.Credential `json:"credential"`
	Server     compute.ServerID   `json:"server"`
	Object     string             `json:"object"`
}

// SaveResult says what was stored.
type SaveResult struct {
	SizeBytes int64  `json:"size_bytes"`
	SHA256    string `json:"sha256"` // hex
}

// RestoreInput asks that a host has the state that an object keeps.
type RestoreInput struct {
	Credential compute.Credential  `json:"credential"`
	Server     compute.ServerID    `json:"server"`
	Operation  compute.OperationID `json:"operation"`
	Began      time.Time           `json:"began,omitzero"` // when the operation did (compute.Thing.WaitedBefore)
	Stored     compute.StoredTPM   `json:"stored"`
}
