// Package tpm looks after the swtpm state folders of a compute host.
package tpm

import "strongroom/compute"

// The registered names of the activities; they run on the host's queue.
const (
	Delete    = "tpm.Delete"
	Inventory = "tpm.Inventory"
)

// DeleteInput asks that a server has no TPM state left.
type DeleteInput struct {
	Server compute.ServerID `json:"server"`
}

// InventoryResult lists the servers that have TPM state on the host.
type InventoryResult struct {
	Servers []string `json:"servers"` // uuids
}
