package disk

import "strongroom/compute"

// The registered names of what makes copies of disks for the image store.
const (
	Export       = "disk.Export" // bulk queue
	DeleteExport = "disk.DeleteExport"
)

// ExportInput asks for a copy of a disk of a server that does not run.
type ExportInput struct {
	Credential compute.Credential   `json:"credential"` // to read the disk's own secrets with
	Server     compute.ServerID     `json:"server"`
	Operation  compute.OperationID  `json:"operation"` // names the folder of the copy
	Disk       compute.Disk         `json:"disk"`
	Image      *compute.Image       `json:"image,omitempty"` // the source of a root disk, as in CreateInput
	Target     compute.ExportTarget `json:"target"`
}

// DeleteExportInput names what an operation exported, of one disk or of several.
type DeleteExportInput struct {
	Server    compute.ServerID    `json:"server"`
	Operation compute.OperationID `json:"operation"`
}
