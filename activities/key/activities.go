package key

import (
	"cmp"
	"context"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"strongroom/compute"
	"strongroom/durable"
)

// The activities; they run on the cloud queue.
var (
	Create = durable.Activity[CreateInput, CreateResult]{Name: "key.Create", Queue: durable.CloudQueue,
		Summary: func(in CreateInput) string { return "create secret for " + compute.SecretUse(in.Name) }}
	Copy = durable.Activity[CopyInput, CreateResult]{Name: "key.Copy", Queue: durable.CloudQueue,
		Summary: func(in CopyInput) string {
			return "copy secret " + in.From.String() + " for " + compute.SecretUse(in.Name)
		}}
	Check = durable.Activity[CheckInput, durable.None]{Name: "key.Check", Queue: durable.CloudQueue,
		Summary: func(in CheckInput) string { return "check secret " + in.Secret.String() }}
	Name = durable.Activity[CheckInput, NameResult]{Name: "key.Name", Queue: durable.CloudQueue,
		Summary: func(in CheckInput) string { return "look up the name of secret " + in.Secret.String() }}
	Remove = durable.Activity[compute.Removal, durable.None]{Name: "key.Remove", Queue: durable.CloudQueue,
		Summary: compute.Removal.String}
	Seen = durable.Activity[compute.SeenInput, compute.SeenResult]{Name: "key.Seen", Queue: durable.CloudQueue,
		Summary: func(compute.SeenInput) string { return "list secrets" }}
)

// CheckInput asks whether a credential may read a secret (EE-15, EE-18).
type CheckInput struct {
	Credential compute.Credential `json:"credential"`
	Secret     compute.SecretID   `json:"secret"`
}

// NameResult is what a secret is called.
type NameResult struct {
	Name string `json:"name,omitempty"`
}

// Activities are what workflows call of the key manager.
type Activities struct{ Manager Manager }

// Register registers the activities.
func (a *Activities) Register(r durable.Registry) {
	Create.Register(r, a.Create)
	Copy.Register(r, a.Copy)
	Check.Register(r, durable.NoResult(a.Check))
	Name.Register(r, a.Name)
	Remove.Register(r, durable.NoResult(a.Remove))
	Seen.Register(r, a.Seen)
}

// Create is the activity key.Create.
func (a *Activities) Create(ctx context.Context, in CreateInput) (CreateResult, error) {
	id, err := a.Manager.Create(ctx, in)
	return CreateResult{Secret: id}, err
}

// Copy is the activity key.Copy.
func (a *Activities) Copy(ctx context.Context, in CopyInput) (CreateResult, error) {
	id, err := a.Manager.Copy(ctx, in)
	return CreateResult{Secret: id}, err
}

// Check is the activity key.Check. NotFound, Forbidden, Corrupt: the credential
// cannot read it; Invalid: what it holds opens no disk, for QEMU takes text only.
func (a *Activities) Check(ctx context.Context, in CheckInput) error {
	p, err := a.Manager.Passphrase(ctx, in.Credential, in.Secret)
	if err != nil {
		return err
	}
	defer p.Wipe()
	return p.Use(func(value []byte) error {
		if len(value) == 0 || !utf8.Valid(value) {
			return compute.Errorf(compute.Invalid, "secret %s holds no text: it cannot be a passphrase", in.Secret)
		}
		return nil
	})
}

// Name is the activity key.Name. A name that is not one of strongroom's is "": it would be in the
// history. It fails as Check does.
func (a *Activities) Name(ctx context.Context, in CheckInput) (NameResult, error) {
	name, err := a.Manager.Name(ctx, in.Credential, in.Secret)
	if !strings.HasPrefix(name, compute.SecretNamePrefix) { // what a user calls his secret is nobody's business
		name = ""
	}
	return NameResult{Name: name}, err
}

// Remove is the activity key.Remove: it ensures that there is no secret of the thing's
// name, and none of the id that its reference is. Forbidden: none of the credentials may.
func (a *Activities) Remove(ctx context.Context, in compute.Removal) error {
	if in.Thing.Kind != compute.ThingKeySecret {
		return in.Misdirected()
	}
	doomed := DeleteInput{Name: in.Thing.Name}
	if id, err := uuid.Parse(in.Thing.Reference); err == nil {
		doomed.ID = &compute.SecretID{UUID: id}
	}
	return compute.WithAny(in.Credentials, func(cred compute.Credential) error {
		doomed.Credential = cred
		return a.Manager.Delete(ctx, doomed)
	})
}

// Seen is the activity key.Seen: the secrets that strongroom made, all of them where the
// manager shows them to the operator, or else project by project. One too damaged to
// tell its name is seen by its id.
func (a *Activities) Seen(ctx context.Context, in compute.SeenInput) (compute.SeenResult, error) {
	list := func(cred compute.Credential, marker string, limit int) ([]compute.Seen, string, error) {
		got, err := a.Manager.List(ctx, cred, ListInput{Marker: marker, Limit: limit})
		seen := make([]compute.Seen, len(got.Items))
		for i, item := range got.Items {
			seen[i] = compute.Seen{Kind: compute.ThingKeySecret, Name: cmp.Or(item.Name, item.ID.String())}
		}
		return seen, got.Next, err
	}
	if in.IsWhole() {
		out, err := in.Whole(func(marker string, limit int) ([]compute.Seen, string, error) {
			return list(compute.Credential{}, marker, limit)
		})
		if in.Page != "" || !compute.Is(err, compute.Forbidden) {
			return out, err
		}
	}
	return in.ByProject(list)
}
