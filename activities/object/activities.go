package object

import (
	"context"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"

	"strongroom/compute"
)

// Inventory is the registered name of the activity; it runs on the cloud queue.
const Inventory = "object.Inventory"

// InventoryInput asks what objects strongroom keeps in projects.
type InventoryInput struct {
	Projects []compute.Access `json:"projects"`
}

// InventoryResult is what was seen, whole or not, and in which projects.
type InventoryResult struct {
	Names []string `json:"names,omitempty"`
	compute.Looks
}

// Activities are what workflows call of the object store.
type Activities struct{ Store Store }

// Register registers the activities under their names.
func (a *Activities) Register(r worker.ActivityRegistry) {
	r.RegisterActivityWithOptions(a.Inventory, activity.RegisterOptions{Name: Inventory})
}

// Inventory is the activity object.Inventory.
func (a *Activities) Inventory(ctx context.Context, in InventoryInput) (out InventoryResult, err error) {
	out.Looks, err = compute.LookInto(in.Projects, func(cred compute.Credential) error {
		items, err := a.Store.List(ctx, cred)
		for _, item := range items {
			out.Names = append(out.Names, item.Name)
		}
		return err
	})
	return out, err
}
