// Package disk makes and removes a server's local disks on a compute host:
// the image cache, qcow2 overlays and raw files, LUKS by qemu-img.
package disk

import "strongroom/compute"

// The registered names of the activities; they run on the host's queues.
const (
	CacheImage = "disk.CacheImage" // bulk queue
	Create     = "disk.Create"
	Delete     = "disk.Delete"
	Inventory  = "disk.Inventory"
)

// CacheImageInput asks that the host's image cache holds an image.
type CacheImageInput struct {
	Credential compute.Credential `json:"credential"`
	Image      compute.Image      `json:"image"`
}

// CreateInput asks for one disk of a server. Disk.Secret names the passphrase
// when Disk.Encrypted. Image is the cached source of a root disk.
type CreateInput struct {
	Credential compute.Credential `json:"credential"`
	Server     compute.ServerID   `json:"server"`
	Disk       compute.Disk       `json:"disk"`
	Image      *compute.Image     `json:"image,omitempty"`
}

// CreateResult tells what was really used to encrypt (EE-08).
type CreateResult struct {
	EncryptionOptions map[string]string `json:"encryption_options,omitempty"`
}

// DeleteInput names one file in a server's folder; the folder goes with its
// last file.
type DeleteInput struct {
	Server compute.ServerID `json:"server"`
	File   string           `json:"file"` // "disk", "disk.eph0", "disk.swap", "console.log"
}

// InventoryResult lists the files in all servers' folders as "<server uuid>/<file>".
type InventoryResult struct {
	Files []string `json:"files"`
}

// ConsoleLog is the file in a server's folder that keeps its serial output.
const ConsoleLog = "console.log"
