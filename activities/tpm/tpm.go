// Package tpm looks after the swtpm state folders of a compute host.
package tpm

import (
	"strongroom/compute"
	"strongroom/durable"
)

// The activities; they run on the host's queue.
var (
	Remove = durable.HostActivity[compute.Removal, durable.None]{Name: "tpm.Remove", Summary: compute.Removal.String}
	Seen   = durable.HostActivity[compute.SeenInput, compute.SeenResult]{Name: "tpm.Seen",
		Summary: func(compute.SeenInput) string { return "list TPM states" }}
)
