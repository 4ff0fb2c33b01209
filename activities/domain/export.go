package domain

import "strongroom/compute"

// Export is the registered name of the activity that copies a running server's
// disk; it runs on the host's bulk queue.
const Export = "domain.Export"

// ExportInput asks for a copy of a disk of a running server, as the disk was at
// one point in time. The target's secret is lent to libvirt as those of a start
// are, and taken back as soon as QEMU has it.
type ExportInput struct {
	Server    compute.ServerID     `json:"server"`
	Operation compute.OperationID  `json:"operation"` // names the folder of the copy
	Disk      compute.Disk         `json:"disk"`
	Target    compute.ExportTarget `json:"target"`
}
