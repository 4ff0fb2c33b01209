package client

import (
	"context"

	"github.com/gophercloud/gophercloud/v2"
)

// Disk is a local disk of a server and how it is encrypted.
type Disk struct {
	ID            string            `json:"id"`
	Role          string            `json:"role"` // root, ephemeral0, swap …
	DeviceName    string            `json:"device_name"`
	Bus           string            `json:"bus"`
	SizeMB        int64             `json:"size_mb"` // MiB
	BootIndex     int               `json:"boot_index"`
	GuestFormat   string            `json:"guest_format"`
	ImageID       string            `json:"image_id"`
	Tag           string            `json:"tag"`
	Encrypted     bool              `json:"encrypted"`
	Format        string            `json:"encryption_format"`              // luks, luksv2 or plain; "" until it is made, and of one that is not encrypted
	Secret        string            `json:"encryption_secret_uuid"`         // the id of its passphrase in the key manager
	BackingSecret string            `json:"backing_encryption_secret_uuid"` // that of the image's below it
	Options       map[string]string `json:"encryption_options"`             // what was really used, such as cipher-alg
}

// ListDisks gives the local disks of a server.
func ListDisks(ctx context.Context, c *gophercloud.ServiceClient, server string) ([]Disk, error) {
	var body struct {
		Disks []Disk `json:"disks"`
	}
	return body.Disks, get(ctx, c, &body, "servers", server, "disks")
}

// RotateKeys gives encrypted disks of a server new passphrases: those with the roles that are named, or all.
func RotateKeys(ctx context.Context, c *gophercloud.ServiceClient, server string, roles []string) (operation string, err error) {
	var arguments any
	if len(roles) > 0 {
		arguments = map[string]any{"disks": roles}
	}
	return Act(ctx, c, server, map[string]any{"rotateKeys": arguments})
}

// The key of an image of a server whose disks are encrypted.
const (
	KeySame     = "same"     // a copy of the root disk's own; the default
	KeyNew      = "new"      // a new one
	KeyExisting = "existing" // one that is in the key manager: ImageOpts.Secret
	KeyNone     = "none"     // none: the image is not encrypted
)

// ImageOpts is what an image of a server is to be.
type ImageOpts struct {
	Name     string
	Metadata map[string]string
	Key      string // KeySame …; "": the default
	Secret   string // of KeyExisting alone: the id of its secret
}

// CreateImage makes an image of a server. Its record is there at once, its data when the operation has succeeded.
func CreateImage(ctx context.Context, c *gophercloud.ServiceClient, server string, opts ImageOpts) (image, operation string, err error) {
	asked := map[string]any{"name": opts.Name}
	if len(opts.Metadata) > 0 {
		asked["metadata"] = opts.Metadata
	}
	if opts.Key != "" {
		encryption := map[string]any{"key": opts.Key}
		if opts.Secret != "" {
			encryption["secret_uuid"] = opts.Secret
		}
		asked["encryption"] = encryption
	}
	var body struct {
		Image string `json:"image_id"`
	}
	header, err := post(ctx, c, map[string]any{"createImage": asked}, &body, "servers", server, "action")
	return body.Image, OperationID(header), err
}
