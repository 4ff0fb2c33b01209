// Package trust keeps what owners of servers delegate: trusts in the identity
// service, by which strongroom may act in an owner's name for as long as his
// server lives (flavors whose keys are of the mode "host").
//
// Keeper is the port; each adapter lives in a folder of its own and passes the
// suite in trusttest.
package trust

import (
	"context"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"

	"strongroom/compute"
)

// Keeper is where trusts are. All methods may be called at once, also from several
// processes.
type Keeper interface {
	// Create ensures one trust of this name, from the credential's user to
	// strongroom's own, impersonating, in the credential's project and with all
	// roles that the token has there. It gives the trust's id. Two calls at once
	// make one trust. Forbidden: the credential cannot delegate.
	Create(ctx context.Context, in CreateInput) (id string, err error)
	// Delete ensures that no trust of this name, and of this id where it is known,
	// is left. One that is not there is a success. Forbidden: the credential may not.
	Delete(ctx context.Context, in DeleteInput) error
	// List gives the trusts in strongroom's own user that strongroom made, in no
	// order.
	List(ctx context.Context) ([]Item, error)
}

// CreateInput asks for a trust.
type CreateInput struct {
	Credential compute.Credential `json:"credential"` // the owner's token
	Name       string             `json:"name"`
}

// CreateResult says which trust it is. Its id is of no use to anybody but
// strongroom's own user.
type CreateResult struct {
	Trust string `json:"trust"`
}

// DeleteInput names the trust to remove.
type DeleteInput struct {
	Credential compute.Credential `json:"credential"`
	// Others are tried in turn where the identity service refuses Credential.
	Others []compute.Credential `json:"others,omitempty"`
	Name   string               `json:"name"`
	ID     string               `json:"id,omitempty"`
}

// Item is a trust as the audit sees it.
type Item struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	ProjectID string `json:"project_id"`
	UserID    string `json:"user_id"` // who delegated
}

// The registered names of the activities; they run on the cloud queue.
const (
	Create    = "trust.Create"
	Delete    = "trust.Delete"
	Inventory = "trust.Inventory"
)

// Activities are what workflows call.
type Activities struct{ Keeper Keeper }

// Create is the activity trust.Create.
func (a *Activities) Create(ctx context.Context, in CreateInput) (CreateResult, error) {
	id, err := a.Keeper.Create(ctx, in)
	return CreateResult{Trust: id}, err
}

// Delete is the activity trust.Delete. Forbidden: none of the credentials may.
func (a *Activities) Delete(ctx context.Context, in DeleteInput) error {
	return compute.WithAny(append([]compute.Credential{in.Credential}, in.Others...), func(cred compute.Credential) error {
		in.Credential = cred
		return a.Keeper.Delete(ctx, in)
	})
}

// Inventory is the activity trust.Inventory.
func (a *Activities) Inventory(ctx context.Context) ([]Item, error) { return a.Keeper.List(ctx) }

// Register registers the activities under their names.
func (a *Activities) Register(r worker.ActivityRegistry) {
	r.RegisterActivityWithOptions(a.Create, activity.RegisterOptions{Name: Create})
	r.RegisterActivityWithOptions(a.Delete, activity.RegisterOptions{Name: Delete})
	r.RegisterActivityWithOptions(a.Inventory, activity.RegisterOptions{Name: Inventory})
}
