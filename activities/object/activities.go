package object

import (
	"context"
	"io"

	"go.temporal.io/sdk/activity"

	"strongroom/compute"
	"strongroom/durable"
)

// The activities; they run on the cloud queue.
var (
	Check = durable.Activity[CheckInput, durable.None]{Name: "object.Check", Queue: durable.CloudQueue,
		Summary: func(CheckInput) string { return "see whether objects can be stored" }}
	Verify = durable.Activity[VerifyInput, durable.None]{Name: "object.Verify", Queue: durable.CloudQueue,
		Summary: func(in VerifyInput) string { return "read back object " + in.Name }}
	Remove = durable.Activity[compute.Removal, durable.None]{Name: "object.Remove", Queue: durable.CloudQueue,
		Summary: compute.Removal.String}
	Seen = durable.Activity[compute.SeenInput, compute.SeenResult]{Name: "object.Seen", Queue: durable.CloudQueue,
		Summary: func(compute.SeenInput) string { return "list objects" }}
)

// CheckInput names a credential.
type CheckInput struct {
	Credential compute.Credential `json:"credential"`
}

// VerifyInput says what an object has to have.
type VerifyInput struct {
	Credential compute.Credential `json:"credential"`
	Name       string             `json:"name"`
	SizeBytes  int64              `json:"size_bytes,omitempty"` // 0: any
	SHA256     string             `json:"sha256"`               // hex, of the whole
}

// Activities are what workflows call of the object store.
type Activities struct{ Store Store }

// Register registers the activities.
func (a *Activities) Register(r durable.Registry) {
	Check.Register(r, durable.NoResult(a.Check))
	Verify.Register(r, durable.NoResult(a.Verify))
	Remove.Register(r, durable.NoResult(a.Remove))
	Seen.Register(r, a.Seen)
}

// Check is the activity object.Check. Forbidden: the credential may not use the store.
func (a *Activities) Check(ctx context.Context, in CheckInput) error {
	return a.Store.Check(ctx, in.Credential)
}

// Verify is the activity object.Verify: it reads all of an object. Corrupt: it is not what
// was stored; NotFound: there is no such object, or it is not whole.
func (a *Activities) Verify(ctx context.Context, in VerifyInput) error {
	m, err := a.Store.Get(ctx, in.Credential, in.Name)
	if err != nil {
		return err
	}
	if in.SizeBytes != 0 && m.SizeBytes != in.SizeBytes || m.SHA256 != in.SHA256 {
		return compute.Errorf(compute.Corrupt, "object %s has %d bytes, which are not those that were stored", in.Name, m.SizeBytes)
	}
	data, err := a.Store.Open(ctx, in.Credential, in.Name, 0)
	if err != nil {
		return err
	}
	defer func() { _ = data.Close() }()
	_, err = io.Copy(beating{ctx}, data) // the reader compares the data with the manifest
	return err
}

// beating is written to by what takes long.
type beating struct{ ctx context.Context }

func (b beating) Write(p []byte) (int, error) {
	if activity.IsActivity(b.ctx) {
		activity.RecordHeartbeat(b.ctx)
	}
	return len(p), b.ctx.Err()
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
