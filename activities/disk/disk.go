// Package disk makes and removes a server's local disks on a compute host:
// the image cache, qcow2 overlays and raw files, LUKS by qemu-img.
package disk

import "strongroom/compute"

// The registered names of the activities; they run on the host's queues.
const (
	CacheImage   = "disk.CacheImage" // bulk queue
	ReleaseImage = "disk.ReleaseImage"
	Create       = "disk.Create"
	Delete       = "disk.Delete"
	Inventory    = "disk.Inventory"
)

// CacheImageInput asks that the host's image cache holds an image. A plain image is
// anybody's and stays. An encrypted one is kept, as it came, for one project and for
// as long as disks lean on it: Use says for which (compute.Image.CacheUse).
type CacheImageInput struct {
	Credential compute.Credential `json:"credential"`
	Image      compute.Image      `json:"image"`
	Use        string             `json:"use,omitempty"`
}

// ReleaseImageInput names a use of an encrypted image that is over.
type ReleaseImageInput struct {
	Use string `json:"use"`
}

// CreateInput asks for one disk of a server. Disk.Secret names the passphrase
// when Disk.Encrypted. Image is the cached source of a root or rescue disk;
// Project, the server's, says whose copy of it when it is encrypted, and
// Disk.BackingSecret opens that.
type CreateInput struct {
	Credential compute.Credential `json:"credential"`
	Server     compute.ServerID   `json:"server"`
	Project    string             `json:"project,omitempty"`
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
	File   string           `json:"file"` // "disk", "disk.eph0", "disk.swap", "disk.rescue", "disk.config", "console.log"
}

// InventoryResult lists the files in all servers' folders as "<server uuid>/<file>",
// and who uses the copies of encrypted images (compute.Image.CacheUse). A copy that
// nobody uses is listed by its own name.
type InventoryResult struct {
	Files        []string `json:"files"`
	CachedImages []string `json:"cached_images,omitempty"`
}

// ConsoleLog is the file in a server's folder that keeps its serial output.
const ConsoleLog = "console.log"
