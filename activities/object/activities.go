package object

import (
	"context"

	"strongroom/compute"
	"strongroom/durable"
)

// The activities; they run on the cloud queue.
var (
	Remove = durable.Activity[compute.Removal, durable.None]{Name: "object.Remove", Queue: durable.CloudQueue,
		Summary: compute.Removal.String}
	Seen = durable.Activity[compute.SeenInput, compute.SeenResult]{Name: "object.Seen", Queue: durable.CloudQueue,
		Summary: func(compute.SeenInput) string { return "list objects" }}
)

// Activities are what workflows call of the object store.
type Activities struct{ Store Store }

// Register registers the activities.
func (a *Activities) Register(r durable.Registry) {
	Remove.Register(r, durable.NoResult(a.Remove))
	Seen.Register(r, a.Seen)
}

// Remove is the activity object.Remove: it ensures that neither the object nor a segment
// of it is left. Forbidden: none of the credentials may.
func (a *Activities) Remove(ctx context.Context, in compute.Removal) error {
	if in.Thing.Kind != compute.ThingObject {
		return in.Misdirected()
	}
	return compute.WithAny(in.Credentials, func(cred compute.Credential) error {
		return a.Store.Delete(ctx, cred, in.Thing.Name)
	})
}

// Seen is the activity object.Seen: what strongroom keeps in projects, whole or not.
func (a *Activities) Seen(ctx context.Context, in compute.SeenInput) (compute.SeenResult, error) {
	return in.ByProject(func(cred compute.Credential, marker string, limit int) ([]compute.Seen, string, error) {
		got, err := a.Store.List(ctx, cred, ListInput{Marker: marker, Limit: limit})
		seen := make([]compute.Seen, len(got.Items))
		for i, item := range got.Items {
			seen[i] = compute.Seen{Kind: compute.ThingObject, Name: item.Name}
		}
		return seen, got.Next, err
	})
}
