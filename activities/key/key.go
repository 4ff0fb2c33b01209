// Package key keeps the passphrases of disks and vTPMs in a key manager.
//
// Manager is the port; each adapter lives in a folder of its own and passes the
// suite in keytest. Activities is what workflows call: it moves references only,
// a passphrase is made and stays behind the port.
package key

import (
	"context"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"

	"strongroom/activities/secret"
	"strongroom/compute"
)

// Manager is a key manager. Every secret belongs to the project of the
// credential it was made with; another project's credential gets Forbidden or
// NotFound, never a value. No error text carries a value. All methods may be
// called at once, also from several processes.
type Manager interface {
	// Check tells whether the credential may make secrets in its project, without
	// making any. Forbidden: it may not; Unavailable: the manager does not answer.
	Check(ctx context.Context, cred compute.Credential) error
	// Create ensures that one secret of this name exists in the credential's
	// project and gives its id. The passphrase, base64 text of in.Bytes random
	// bytes, is made here and is not returned. When the secret exists already,
	// its id is given and its value stays. Two calls at once make one secret.
	// Invalid: no project, no name, or no sensible number of bytes; Corrupt: the
	// secret exists and cannot be read; Conflict: the id is taken by another name.
	Create(ctx context.Context, in CreateInput) (compute.SecretID, error)
	// Copy ensures, as Create does, that one secret of this name exists in the
	// credential's project, with the passphrase of another secret, which may be
	// another project's. NotFound, Forbidden, Corrupt: that one cannot be read;
	// Conflict: the name is taken by a secret with another passphrase; otherwise
	// as Create.
	Copy(ctx context.Context, in CopyInput) (compute.SecretID, error)
	// Passphrase reads a secret. The caller wipes it.
	// NotFound: no such secret; Forbidden: not the caller's; Corrupt: it was
	// damaged or is not sealed by this manager's key.
	Passphrase(ctx context.Context, cred compute.Credential, id compute.SecretID) (*secret.Passphrase, error)
	// Delete ensures that no secret of this name (and of this id, where it is
	// known) is left in the credential's project. One that is not there is a
	// success. Forbidden: the id is another project's secret. A name is looked for
	// in the credential's project only: another project's of the same name stays.
	Delete(ctx context.Context, in DeleteInput) error
	// List gives the secrets that strongroom made and the credential can see, in
	// no order. A credential without a project is the operator's own: where the
	// manager lets it, it sees every project's. A secret too damaged to tell its
	// name is listed by its id alone, to the operator only.
	List(ctx context.Context, cred compute.Credential) ([]Item, error)
}

// CreateInput asks for a secret.
type CreateInput struct {
	Credential compute.Credential `json:"credential"`
	ID         compute.SecretID   `json:"id"`    // derived from the operation; used where the manager lets the client choose
	Name       string             `json:"name"`  // deterministic: names the server, disk and operation
	Bytes      int                `json:"bytes"` // random bytes before base64: compute.DiskPassphraseBytes or TPMPassphraseBytes
}

// CreateResult says which secret it is.
type CreateResult struct {
	Secret compute.SecretID `json:"secret"`
}

// DeleteInput names the secret to remove.
type DeleteInput struct {
	Credential compute.Credential `json:"credential"`
	// Others are tried in turn where the key manager refuses Credential.
	Others []compute.Credential `json:"others,omitempty"`
	Name   string               `json:"name"`
	ID     *compute.SecretID    `json:"id,omitempty"`
}

// InventoryInput asks what secrets exist. Projects are looked into one by one
// where the key manager shows nobody all of them.
type InventoryInput struct {
	Projects []compute.Access `json:"projects,omitempty"`
}

// InventoryResult is what secrets were seen, and what was looked at: all, or the
// projects that a credential opened.
type InventoryResult struct {
	Items []Item `json:"items"`
	All   bool   `json:"all,omitempty"`
	compute.Looks
}

// Item is a secret as the audit sees it.
type Item struct {
	ID        compute.SecretID `json:"id"`
	Name      string           `json:"name"`
	ProjectID string           `json:"project_id"`
}

// The registered names of the activities; they run on the cloud queue.
const (
	Create    = "key.Create"
	Delete    = "key.Delete"
	Inventory = "key.Inventory"
)

// Activities are what workflows call of the key manager.
type Activities struct{ Manager Manager }

// Create is the activity key.Create.
func (a *Activities) Create(ctx context.Context, in CreateInput) (CreateResult, error) {
	id, err := a.Manager.Create(ctx, in)
	return CreateResult{Secret: id}, err
}

// Delete is the activity key.Delete. Forbidden: none of the credentials may.
func (a *Activities) Delete(ctx context.Context, in DeleteInput) error {
	return compute.WithAny(append([]compute.Credential{in.Credential}, in.Others...), func(cred compute.Credential) error {
		in.Credential = cred
		return a.Manager.Delete(ctx, in)
	})
}

// Inventory is the activity key.Inventory.
func (a *Activities) Inventory(ctx context.Context, in InventoryInput) (InventoryResult, error) {
	items, err := a.Manager.List(ctx, compute.Credential{})
	if !compute.Is(err, compute.Forbidden) {
		return InventoryResult{Items: items, All: true}, err
	}
	var out InventoryResult
	out.Looks, err = compute.LookInto(in.Projects, func(cred compute.Credential) error {
		items, err := a.Manager.List(ctx, cred)
		out.Items = append(out.Items, items...)
		return err
	})
	return out, err
}

// Register registers the activities under their names.
func (a *Activities) Register(r worker.ActivityRegistry) {
	r.RegisterActivityWithOptions(a.Create, activity.RegisterOptions{Name: Create})
	r.RegisterActivityWithOptions(a.Copy, activity.RegisterOptions{Name: Copy})
	r.RegisterActivityWithOptions(a.Look, activity.RegisterOptions{Name: Look})
	r.RegisterActivityWithOptions(a.Delete, activity.RegisterOptions{Name: Delete})
	r.RegisterActivityWithOptions(a.Inventory, activity.RegisterOptions{Name: Inventory})
}
