package image

import (
	"context"
	"slices"

	"strongroom/compute"
)

// InventoryInput asks which images of servers are there: those that are Known to be
// in the making, and others that are half made. A whole one that nobody is making is
// its owner's.
type InventoryInput struct {
	Projects []compute.Access  `json:"projects"`
	Known    []compute.ImageID `json:"known,omitempty"`
}

// InventoryResult is what was seen, and in which projects.
type InventoryResult struct {
	Images []compute.ImageID `json:"images,omitempty"`
	compute.Looks
}

// Inventory is the activity image.Inventory.
func (a *Activities) Inventory(ctx context.Context, in InventoryInput) (out InventoryResult, err error) {
	out.Looks, err = compute.LookInto(in.Projects, func(cred compute.Credential) error {
		all, err := a.Library.List(ctx, cred)
		for _, img := range all {
			known := slices.Contains(in.Known, img.ID)
			if Owns(cred, img) && (known || img.IsOfServer() && slices.Contains(halfMade, img.Status)) {
				out.Images = append(out.Images, img.ID)
			}
		}
		return err
	})
	return out, err
}
