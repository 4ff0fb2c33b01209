package trust

import (
	"context"

	"strongroom/compute"
	"strongroom/durable"
)

// The activities; they run on the cloud queue.
var (
	Create = durable.Activity[CreateInput, CreateResult]{Name: "trust.Create", Queue: durable.CloudQueue,
		Summary: func(in CreateInput) string { return "create " + compute.SecretUse(in.Name) }}
	Remove = durable.Activity[compute.Removal, durable.None]{Name: "trust.Remove", Queue: durable.CloudQueue,
		Summary: compute.Removal.String}
	Seen = durable.Activity[compute.SeenInput, compute.SeenResult]{Name: "trust.Seen", Queue: durable.CloudQueue,
		Summary: func(compute.SeenInput) string { return "list trusts" }}
)

// Activities are what workflows call of the identity service.
type Activities struct{ Keeper Keeper }

// Register registers the activities.
func (a *Activities) Register(r durable.Registry) {
	Create.Register(r, a.Create)
	Remove.Register(r, durable.NoResult(a.Remove))
	Seen.Register(r, a.Seen)
}

// Create is the activity trust.Create.
func (a *Activities) Create(ctx context.Context, in CreateInput) (CreateResult, error) {
	id, err := a.Keeper.Create(ctx, in)
	return CreateResult{Trust: id}, err
}

// Remove is the activity trust.Remove: it ensures that there is no trust of the thing's
// name, and none of the id that its reference is. Forbidden: none of the credentials may.
func (a *Activities) Remove(ctx context.Context, in compute.Removal) error {
	if in.Thing.Kind != compute.ThingTrust {
		return in.Misdirected()
	}
	doomed := DeleteInput{Name: in.Thing.Name, ID: in.Thing.Reference}
	return compute.WithAny(in.Credentials, func(cred compute.Credential) error {
		doomed.Credential = cred
		return a.Keeper.Delete(ctx, doomed)
	})
}

// Seen is the activity trust.Seen: the trusts in strongroom's own user that it made.
func (a *Activities) Seen(ctx context.Context, in compute.SeenInput) (compute.SeenResult, error) {
	return in.Whole(func(marker string, limit int) ([]compute.Seen, string, error) {
		got, err := a.Keeper.List(ctx, ListInput{Marker: marker, Limit: limit})
		seen := make([]compute.Seen, len(got.Items))
		for i, item := range got.Items {
			seen[i] = compute.Seen{Kind: compute.ThingTrust, Name: item.Name}
		}
		return seen, got.Next, err
	})
}
